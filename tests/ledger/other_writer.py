"""Another process that opens a ledger and writes as many decisions as it is told to, line by line.

python other_writer.py FOLDER      reads a number in each line, and answers with the rows there are
"""

import sys

import likewise as lw

if __name__ == "__main__":
    with lw.open(sys.argv[1]) as monitor:
        print(monitor.rows, flush=True)
        for line in sys.stdin:
            for _ in range(int(line)):
                monitor.observe([0.9, 0.9], "other", key=f"other {monitor.rows}")
            print(monitor.rows, flush=True)
