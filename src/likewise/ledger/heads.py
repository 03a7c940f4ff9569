"""The head of a chain, as text that can be kept elsewhere."""

import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from likewise.errors import BadFile
from likewise.ledger.hashes import DIGEST
from likewise.ledger.schema import FORMAT, SCHEMAS
from likewise.ledger.stored import Altered

NAMESPACE = "likewise-head"
"""What a signature is for: one made for something else does not count."""
_SECONDS = 60
_MOST_ANSWER = 1 << 20


def sign(head: Path, key: Path) -> Path:
    """Sign a file with a key of OpenSSH's; the file of the signature."""
    signature = head.with_name(f"{head.name}.sig")
    signature.unlink(missing_ok=True)
    _run("ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(head))
    return signature


def check_signature(head: Path, signers: Path, signer: str) -> None:
    """Raise BadFile unless a file was signed by somebody on a list of allowed signers."""
    signature = head.with_name(f"{head.name}.sig")
    if not signature.is_file():
        raise BadFile(f"{str(head)!r} has no signature: {signature.name} is not there.", path=head)
    parts = ("-f", str(signers), "-I", signer, "-n", NAMESPACE, "-s", str(signature))
    _run("ssh-keygen", "-Y", "verify", *parts, given=head.read_bytes())


def stamp(head: Path, service: str) -> Path:
    """Have a service say that it has seen a file, and when; the file with its answer."""
    if urlsplit(service).scheme not in ("http", "https"):
        raise BadFile(f"{service!r} is no address of a service; expected http or https.")
    query, answer = (head.with_name(f"{head.name}.{end}") for end in ("tsq", "tsr"))
    _run(
        "openssl", "ts", "-query", "-data", str(head), "-sha256", "-cert", "-out", str(query)
    )  # fmt: skip
    asked = urllib.request.Request(
        service, query.read_bytes(), {"Content-Type": "application/timestamp-query"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=_SECONDS) as given:
            content = given.read(_MOST_ANSWER)
    except (urllib.error.URLError, OSError) as error:
        raise BadFile(f"the service {service} gives no time stamp: {error}.") from None
    finally:
        query.unlink()
    answer.write_bytes(content)
    try:
        _run("openssl", "ts", "-reply", "-in", str(answer), "-text")
    except BadFile:
        answer.unlink()
        raise
    return answer


def check_stamp(head: Path, authority: Path) -> None:
    """Raise BadFile unless a service whose certificates these are has stamped a file."""
    answer = head.with_name(f"{head.name}.tsr")
    parts = ("-in", str(answer), "-data", str(head), "-CAfile", str(authority))
    _run("openssl", "ts", "-verify", *parts)


def _run(program: str, *arguments: str, given: bytes | None = None) -> None:
    if shutil.which(program) is None:
        raise BadFile(f"{program} is not installed, which this needs.")
    done = subprocess.run(
        [program, *arguments], input=given, capture_output=True, check=False, timeout=_SECONDS
    )
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise BadFile(f"{program} says: {said[-1] if said else 'nothing'}")


@dataclass(frozen=True)
class Head:
    """The end of a chain at some moment, to be kept where the ledger's owner cannot reach it.

    >>> Head.of("likewise-head 2 5 3 " + 64 * "0").rows
    5
    """

    rows: int
    events: int
    link: bytes
    version: int = FORMAT
    """Of the ledger's format."""

    def __str__(self) -> str:
        return f"likewise-head {self.version} {self.rows} {self.events} {self.link.hex()}"

    @classmethod
    def of(cls, text: str) -> "Head":
        try:
            name, version, rows, events, link = text.split()
            head = cls(int(rows), int(events), bytes.fromhex(link), int(version))
        except ValueError:
            name = ""
        if name != "likewise-head" or head.version not in SCHEMAS or len(head.link) != DIGEST:
            raise BadFile(
                f"{text[:200]!r} is no head; expected 'likewise-head {FORMAT} ROWS EVENTS HASH'"
            )
        return head


def written_anew(head: Head, where: str) -> Altered:
    return Altered(
        None,
        f"after {where} the chain is not the one that the head given ({head}) belongs to: it was"
        " written anew",
    )


def check_met(head: Head | None, met: bool, first: int, rows: int) -> None:
    """Raise Altered if a walk over the rows from `first` up to `rows` did not come by a head."""
    if met or head is None:
        return
    if head.rows < first:
        raise Altered(
            None,
            f"the head given ({head}) is from before row {first:,}, the first that the window has"
            " kept, so whether it was on the chain can no longer be told",
        )
    raise Altered(
        None,
        f"the head given ({head}) is not on this chain, which has {rows:,} rows: it was cut, or"
        " written anew",
    )
