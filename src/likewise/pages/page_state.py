"""What the pages remember about one monitor between requests.

All of it is in memory and lives as long as the pages of one service (`Entrance` in screen.py).
"""

from dataclasses import dataclass, field

from likewise.pages.leases import Leases
from likewise.pages.review_log import ReviewLog
from likewise.pages.tally import BackgroundTally
from likewise.service.hosted import Hosted


@dataclass
class PageState:
    """The counts, reviews and leases of one monitor."""

    hosted: Hosted
    leases: Leases = field(default_factory=Leases)
    reviews: ReviewLog = field(default_factory=ReviewLog)
    tally: BackgroundTally = field(init=False)

    def __post_init__(self) -> None:
        self.tally = BackgroundTally(self.hosted)
