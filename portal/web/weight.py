"""What goes over the wire weighs little: pages, scripts and style sheets are compressed. No caching.

Fragments are compressed by web.audience, once for all who get them. Nothing secret stands in a page but the CSRF token,
which is masked (portal.domain.masking): lengths of compressed pages tell nothing of it.
"""

from flask import Flask
from flask_compress import Compress

MIMETYPES = (
    "text/html", "text/css", "text/javascript", "application/javascript", "application/json", "image/svg+xml",
    "text/csv", "text/plain",
)  # fmt: skip

compress = Compress()


def init_weight(app: Flask) -> None:
    """Brotli where the browser takes it (HTTPS, localhost), else gzip.

    At quality 5 Tabler's 635 KB become 71 KB in 14 ms, once a year per browser; at 11 they would be 56 KB in 1.5 s.
    """
    app.config.update(
        COMPRESS_ALGORITHM=["br", "gzip"],
        COMPRESS_ALGORITHM_STREAMING=["br", "gzip"],
        COMPRESS_BR_LEVEL=5,
        COMPRESS_LEVEL=6,
        COMPRESS_MIMETYPES=list(MIMETYPES),
    )
    compress.init_app(app)
