"""What the tables of histories have in common."""

from sqlalchemy.orm import Mapped, mapped_column


class HistoryColumns:
    """The values of portal.domain.series.Row, under its names."""

    mean: Mapped[float | None]
    minimum: Mapped[float | None]
    maximum: Mapped[float | None]
    last: Mapped[float | None]
    samples: Mapped[int] = mapped_column(default=1)
    span: Mapped[int] = mapped_column(default=0)
    without: Mapped[int] = mapped_column(default=0)
