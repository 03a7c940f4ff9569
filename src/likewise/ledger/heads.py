"""Read, sign and time-stamp the head of a chain: text that can be kept elsewhere."""

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
"""The purpose of a signature: one made for another purpose does not count."""
_SECONDS = 60
_MOST_ANSWER = 1 << 20


def sign(head: Path, key: Path) -> Path:
    """Sign a file with an OpenSSH key; return the file of the signature."""
    signature = head.with_name(f"{head.name}.sig")
    signature.unlink(missing_ok=True)
    _run("ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(head))
    return signature


def check_signature(head: Path, signers: Path, signer: str) -> None:
    """Raise BadFile unless a file was signed by a signer in a list of allowed ones."""
    signature = head.with_name(f"{head.name}.sig")
    if not signature.is_file():
        raise BadFile(f"{str(head)!r} has no signature: {signature.name} is not there.", path=head)
    parts = ("-f", str(signers), "-I", signer, "-n", NAMESPACE, "-s", str(signature))
    _run("ssh-keygen", "-Y", "verify", *parts, given=head.read_bytes())


def stamp(head: Path, service: str) -> Path:
    """Let a service time-stamp a file; return the file with its answer."""
    if urlsplit(service).scheme not in ("http", "https"):
        raise BadFile(f"{service!r} is no address of a service; expected http or https.")
    query, answer = (head.with_name(f"{head.name}.{end}") for end in ("tsq", "tsr"))
    _run(
        "openssl", "ts", "-query", "-data", str(head), "-sha256", "-cert", "-out", str(query)
    )  # fmt: skip
    request = urllib.request.Request(
        service, query.read_bytes(), {"Content-Type": "application/timestamp-query"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            content = response.read(_MOST_ANSWER)
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
    """Raise BadFile unless a service with these certificates has stamped a file."""
    answer = head.with_name(f"{head.name}.tsr")
    parts = ("-in", str(answer), "-data", str(head), "-CAfile", str(authority))
    _run("openssl", "ts", "-verify", *parts)


def _run(program: str, *arguments: str, given: bytes | None = None) -> None:
    if shutil.which(program) is None:
        raise BadFile(f"{program} is needed for this, and is not installed.")
    done = subprocess.run(
        [program, *arguments], input=given, capture_output=True, check=False, timeout=_SECONDS
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise BadFile(f"{program} says: {lines[-1] if lines else 'nothing'}")


@dataclass(frozen=True)
class Head:
    """The end of a chain at some time, to be kept where the ledger's owner cannot change it.

    >>> Head.of("likewise-head 2 5 3 " + 64 * "0").rows
    5
    """

    rows: int
    events: int
    link: bytes
    version: int = FORMAT
    """Version of the ledger's format."""

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


def rewritten_error(head: Head, place: str) -> Altered:
    """Return the error for a chain that is not the one that a head belongs to."""
    return Altered(
        None,
        f"after {place} the chain is not the one that the head given ({head}) belongs to: it was"
        " rewritten",
    )


def check_met(head: Head | None, met: bool, first: int, rows: int) -> None:
    """Raise Altered if a walk over the rows from `first` up to `rows` did not meet a head."""
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
        " rewritten",
    )
