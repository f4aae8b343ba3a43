"""Streams: chunks of rows from arrays, files and pipes, in an order that can be resumed."""

from hebbnmf.streams.formats import format_of, known_formats
from hebbnmf.streams.opening import open_stream, source_files
from hebbnmf.streams.options import ReadOptions
from hebbnmf.streams.readers import StreamError
from hebbnmf.streams.stream import Stream

__all__ = [
    "ReadOptions",
    "Stream",
    "StreamError",
    "format_of",
    "known_formats",
    "open_stream",
    "source_files",
]
