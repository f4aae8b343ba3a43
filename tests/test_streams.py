"""Streams: the same rows from every source, resumable anywhere, bad rows named."""

import dataclasses
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hebbnmf.engine.state import BLOCK
from hebbnmf.streams import ReadOptions, StreamError, format_of, known_formats, open_stream

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

N_ROWS, WIDTH = 5 * BLOCK + 17, 3
NAMES = ["a", "b c", "d"]
SMALL = 2 * BLOCK * WIDTH * 8  # two blocks a chunk


@pytest.fixture(scope="module")
def X():
    X = np.random.default_rng(0).standard_normal((N_ROWS, WIDTH)) * 10.0 ** np.arange(-2, 1)
    X.setflags(write=False)
    return X


def text(X, delimiter=",", header=False):
    lines = [delimiter.join(NAMES)] if header else []
    lines += [delimiter.join(map(repr, row)) for row in X.tolist()]
    return "\n".join(lines) + "\n"


def table(X):
    return pa.table({name: X[:, j] for j, name in enumerate(NAMES)})


def write_hdf5(path, X):
    with h5py.File(path, "w") as file:
        file.create_dataset("acquisition/lfp/data", data=X, chunks=(50, WIDTH), compression="gzip")
        file["acquisition/lfp/timestamps"] = np.arange(len(X))


def write_npz(path, X):
    np.savez_compressed(path, labels=np.zeros(3), X=X)


WRITERS = {
    "x.npy": np.save,
    "fortran.npy": lambda path, X: np.save(path, np.asfortranarray(X)),
    "x.npz::X": write_npz,
    "x.csv": lambda path, X: path.write_text(text(X)),
    "named.csv": lambda path, X: path.write_text(text(X, header=True)),
    "windows.csv": lambda path, X: path.write_bytes(
        b"\xef\xbb\xbf" + text(X).replace("\n", "\r\n").encode()
    ),
    "blank lines.csv": lambda path, X: path.write_text("\n" + text(X).replace("\n", "\n\n")),
    "quoted.csv": lambda path, X: path.write_text('"a,1","b"",","c"\n' + text(X)),
    "x.csv.gz": lambda path, X: path.write_bytes(gzip.compress(text(X).encode())),
    "x.tsv": lambda path, X: path.write_text(text(X, "\t", header=True)),
    "x.tsv.gz": lambda path, X: path.write_bytes(gzip.compress(text(X, "\t").encode())),
    "x.jsonl": lambda path, X: path.write_text("\n".join(map(json.dumps, X.tolist()))),
    "objects.jsonl": lambda path, X: path.write_text(
        "\n".join(json.dumps(dict(zip(NAMES, row, strict=True))) for row in X.tolist())
    ),
    "x.jsonl.gz": lambda path, X: path.write_bytes(
        gzip.compress("\n".join(map(json.dumps, X.tolist())).encode())
    ),
    "x.parquet": lambda path, X: parquet.write_table(table(X), path, row_group_size=70),
    "x.feather": lambda path, X: feather.write_feather(table(X), str(path), chunksize=70),
    "x.arrow": lambda path, X: feather.write_feather(table(X), str(path), compression="lz4"),
    "x.nwb::/acquisition/lfp/data": write_hdf5,
    "x.h5": write_hdf5,
}


def write(folder, name, X):
    path = folder / name.partition("::")[0]
    if name == "x.h5":
        with h5py.File(path, "w") as file:
            file["only"] = X
    else:
        WRITERS[name](path, X)
    return str(folder / name)


def sources(folder, X):
    """Every kind of source that can be opened a second time."""
    cuts = [0, 40, 41, 41, 200, len(X)]
    pieces = [X[i:j] for i, j in pairwise(cuts)]
    for number, piece in enumerate(pieces):
        np.save(folder / f"part{number}.npy", piece)
        if len(piece):
            (folder / f"part{number}.csv").write_text(text(piece))
    raw = folder / "x.bin"
    raw.write_bytes(X.tobytes())
    return {
        **{name: (write(folder, name, X), {}) for name in WRITERS},
        "array": (X, {}),
        "rows": (list(X), {}),
        "chunks": (pieces, {}),
        "raw": (raw, {"format": "float64", "width": WIDTH}),
        "npy files": ([folder / f"part{i}.npy" for i in range(len(pieces))], {}),
        "csv pattern": (str(folder / "part*.csv"), {}),
    }


KINDS = [*WRITERS, "array", "rows", "chunks", "raw", "npy files", "csv pattern"]


@pytest.fixture(scope="module")
def every(tmp_path_factory, X):
    return sources(tmp_path_factory.mktemp("sources"), X)


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_rows_in_the_same_chunks(every, X, kind):
    source, options = every[kind]
    with open_stream(source, chunk_bytes=SMALL, **options) as stream:
        chunks = list(stream)
        assert stream.n_features == WIDTH
    assert [len(chunk) for chunk in chunks] == [2 * BLOCK, 2 * BLOCK, BLOCK + 17]
    assert all(chunk.flags.c_contiguous and chunk.dtype == np.float64 for chunk in chunks)
    np.testing.assert_array_equal(np.vstack(chunks), X)


@pytest.mark.parametrize("kind", KINDS)
def test_chosen_columns_come_in_the_order_asked_for(every, X, kind):
    source, options = every[kind]
    stream = open_stream(source, columns=[2, 0], dtype=np.float32, **options)
    np.testing.assert_array_equal(np.vstack(list(stream)), X[:, [2, 0]].astype(np.float32))
    if stream.feature_names is not None and kind != "quoted.csv":
        assert stream.feature_names == ["d", "a"]
        named = open_stream(source, columns=["d", "a"], dtype=np.float32, **options)
        np.testing.assert_array_equal(np.vstack(list(named)), X[:, [2, 0]].astype(np.float32))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_resumed_at_any_position_equals_one_never_stopped(every, kind, shuffle):
    source, options = every[kind]
    options = {**options, "chunk_bytes": BLOCK * WIDTH * 8, "epochs": 2, "shuffle": shuffle}
    options["random_state"] = 7
    whole = open_stream(source, **options)
    positions, chunks = [whole.position], []
    for chunk in whole:
        chunks.append(chunk.copy())
        positions.append(whole.position)
    assert len(chunks) == 12
    for done in range(len(chunks) + 1):
        stream = open_stream(source, **options)
        if done % 2:
            next(stream)  # a stream that has already moved can seek as well
        stream.seek(json.loads(json.dumps(positions[done])))
        rest = list(stream)
        assert len(rest) == len(chunks) - done
        for a, b in zip(rest, chunks[done:], strict=True):
            np.testing.assert_array_equal(a, b)
        assert stream.position == whole.position
        stream.close()
    whole.close()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["x.npy", "x.csv", "chunks"])
def test_a_stream_that_has_ended_can_go_on_for_more_epochs(every, kind, shuffle):
    source, _ = every[kind]
    options = {"chunk_bytes": SMALL, "shuffle": shuffle, "random_state": 2}
    ended = open_stream(source, epochs=2, **options)
    rows = [*ended]
    longer = open_stream(source, epochs=3, **options)
    longer.seek(ended.position)
    rows += longer
    np.testing.assert_array_equal(
        np.vstack(rows), np.vstack(list(open_stream(source, epochs=3, **options)))
    )


@pytest.mark.parametrize(
    "kind", ["array", "x.npy", "fortran.npy", "x.h5", "npy files", "x.csv", "x.parquet"]
)
def test_a_shuffled_epoch_is_a_permutation_of_its_own(every, X, kind):
    source, options = every[kind]
    epochs = []
    for seed in (0, 0, 1):
        rows = np.vstack(list(open_stream(source, shuffle=True, random_state=seed, epochs=2)))
        epochs += [rows[:N_ROWS], rows[N_ROWS:]]
        assert options == {}
    in_order = np.sort(X.view("f8,f8,f8"), axis=0)
    for rows in epochs:
        np.testing.assert_array_equal(np.sort(rows.view("f8,f8,f8"), axis=0), in_order)
        assert not np.array_equal(rows, X)
    np.testing.assert_array_equal(epochs[0], epochs[2])
    assert len({rows[:3].tobytes() for rows in epochs}) == 4


def test_windows_are_shuffled_without_losing_or_mixing_rows():
    X = np.arange(40.0 * BLOCK)[:, None]
    stream = open_stream(iter(X), shuffle=True, random_state=0, chunk_bytes=BLOCK * 8)
    rows = np.vstack(list(stream))[:, 0]
    np.testing.assert_array_equal(np.sort(rows), X[:, 0])
    window = 16 * BLOCK
    assert {*rows[:window]} == {*X[:window, 0]}
    assert np.mean(np.abs(rows - X[:, 0])) > window / 5


def test_a_seed_is_drawn_and_kept_where_none_is_given(X):
    stream = open_stream(X, shuffle=True)
    seed = stream.position["seed"]
    again = open_stream(X, shuffle=True, random_state=seed)
    np.testing.assert_array_equal(next(stream), next(again))
    drawn = open_stream(X, shuffle=True, epochs=2)
    drawn.seek(stream.position)  # takes the seed over
    whole = open_stream(X, shuffle=True, epochs=2, random_state=seed)
    next(whole)
    np.testing.assert_array_equal(next(drawn), next(whole))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"chunk_bytes": SMALL}, "chunk_rows="),
        ({"columns": [0, 1]}, "n_features="),  # by which rows a chunk change too
        ({"shuffle": True}, "seed="),
    ],
)
def test_a_position_of_another_stream_is_refused(X, change, named):
    chunk_bytes = {"chunk_bytes": BLOCK * WIDTH * 8}
    position = open_stream(X, **chunk_bytes).position
    with pytest.raises(StreamError, match=f"{named}.* to resume"):
        open_stream(X, **{**chunk_bytes, **change}).seek(position)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_forged_cursors_and_shorter_sources_are_refused(every, kind, shuffle):
    source, options = every[kind]
    stream = open_stream(source, chunk_bytes=SMALL, shuffle=shuffle, random_state=0, **options)
    position = stream.position

    def read_at(cursor):
        stream.seek({**position, "cursor": cursor})
        return next(stream, None)

    far = json.loads(re.sub(r"\d+", "987654321", json.dumps(position["cursor"])))
    for cursor in (None, "x", [], [1], {}, -5, [-5, -5], [0, -5, 0, 0], [0, 0, 0, 10**9], far):
        with pytest.raises(StreamError):
            read_at(cursor)
    for epoch in (-1, "0", None, 0.5):
        with pytest.raises(StreamError):
            stream.seek({**position, "epoch": epoch})


def test_a_shuffled_source_that_grew_is_not_resumed(X):
    position = open_stream(X, shuffle=True, random_state=0).position
    stream = open_stream(np.vstack([X, X]), shuffle=True, random_state=0)
    with pytest.raises(StreamError, match="another number of rows"):
        stream.seek(position)


@pytest.mark.parametrize("position", [{}, {"epoch": 0}, {"epoch": "x"}, {"cursor": []}])
def test_what_is_no_position_is_refused(X, position):
    stream = open_stream(X)
    whole = {**stream.position, "cursor": None}
    with pytest.raises(StreamError):
        stream.seek(position)
    with pytest.raises(StreamError, match="not a position"):
        stream.seek(whole)


# Bad rows -----------------------------------------------------------------------------------------

BAD = {
    "word.csv": ("a,b\n1,2\n3,x\n4,5\n", "line 3: column 'b': 'x' is not a number"),
    "empty.csv": ("1,2\n3,\n4,5\n", "line 2: column 1 .*: '' is not a number"),
    "nan.csv": ("1,2\nnan,4\n4,5\n", "line 2: column 0 .*: nan is not finite"),
    "overflow.csv": ("1,2\n1e999,4\n4,5\n", "line 2: column 0 .*: inf is not finite"),
    "short.csv": ("1,2\n\n3\n4,5\n", "line 3: it has 1 fields where the first had 2"),
    "long.csv": ("1,2\n3,4,5\n4,5\n", "line 2: it has 3 fields"),
    "underscore.csv": ("1,2\n3,1_0\n4,5\n", "line 2: column 1 .*: '1_0' is not a number"),
    "nul.csv": ("1,2\n3,\0\n4,5\n", "line 2: column 1"),
    "quote.csv": ('1,2\n3,"4\n4,5\n', "line 2: its quotes cannot be read"),
    "broken.jsonl": ("[1, 2]\n[3,\n[4, 5]\n", "line 2: "),
    "short.jsonl": ("[1, 2]\n[3]\n[4, 5]\n", "line 2: it is not a list of 2 numbers"),
    "string.jsonl": ('[1, 2]\n[3, "4"]\n[4, 5]\n', "line 2: column 1 .*: '4' is not a number"),
    "null.jsonl": ("[1, 2]\n[null, 4]\n[4, 5]\n", "line 2: column 0 .*: 'None' is not a number"),
    "big.jsonl": (f"[1, 2]\n[1{'0' * 400}, 4]\n[4, 5]\n", "line 2: it holds a number beyond"),
    "nan.jsonl": ("[1, 2]\n[NaN, 4]\n[4, 5]\n", "line 2: column 0 .*: nan is not finite"),
    "key.jsonl": ('{"a": 1, "b": 2}\n{"a": 3}\n{"b": 5, "a": 4}\n', "line 2: column 'b' is miss"),
    "kind.jsonl": ('{"a": 1, "b": 2}\n[3, 4]\n{"b": 5, "a": 4}\n', "line 2: it is not an object"),
    "deep.jsonl": (f"[1, 2]\n{'[' * 100_000}\n[4, 5]\n", "line 2: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_or_counted(tmp_path, name):
    content, message = BAD[name]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(StreamError, match=f"{name}, {message}"):
        list(open_stream(path))
    stream = open_stream(path, on_bad_row="skip")
    np.testing.assert_array_equal(np.vstack(list(stream)), [[1, 2], [4, 5]])
    assert stream.n_bad_rows == stream.position["n_bad_rows"] == 1


@pytest.mark.parametrize("kind", ["array", "chunks", "x.npy", "x.h5", "x.parquet", "raw"])
def test_rows_that_are_not_finite_are_named_or_counted(tmp_path, X, kind):
    X = X.copy()
    X[100, 1] = np.nan
    X[300, 2] = -np.inf
    source, options = sources(tmp_path, X)[kind]
    with pytest.raises(StreamError, match=r"row 100 .*column (1|'b c').*nan is not finite"):
        list(open_stream(source, **options))
    for shuffle in (False, True):
        stream = open_stream(
            source, on_bad_row="skip", epochs=2, chunk_bytes=SMALL, shuffle=shuffle, **options
        )
        chunks = list(stream)
        assert sum(map(len, chunks)) == 2 * (N_ROWS - 2)
        assert {len(chunk) for chunk in chunks} == {2 * BLOCK, BLOCK + 15}
        assert stream.n_bad_rows == 4


def test_counts_of_bad_rows_resume_with_the_stream(tmp_path, caplog):
    path = tmp_path / "x.csv"
    rows = [f"{i},x" if i % 10 == 0 else f"{i},1" for i in range(40 * BLOCK)]
    path.write_text("\n".join(rows))
    for shuffle in (False, True):
        options = {"on_bad_row": "skip", "chunk_bytes": BLOCK * 16, "shuffle": shuffle}
        whole = open_stream(path, random_state=3, **options)
        for _ in range(20):
            next(whole)
        again = open_stream(path, random_state=3, **options)
        again.seek(whole.position)
        assert again.n_bad_rows == whole.n_bad_rows > 0
        np.testing.assert_array_equal(np.vstack(list(again)), np.vstack(list(whole)))
        assert again.n_bad_rows == whole.n_bad_rows == 4 * BLOCK
    assert f"{4 * BLOCK} bad rows left out so far, the last at" in caplog.text


def test_a_number_beyond_float32_is_a_bad_row():
    with pytest.raises(StreamError, match="not finite"):
        list(open_stream(np.array([[1.0], [1e300]]), dtype=np.float32))


# Headers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "names", "rows"),
    [
        ("a,b\n1,2\n", {}, ["a", "b"], [[1, 2]]),
        ("1,2\n3,4\n", {}, None, [[1, 2], [3, 4]]),
        ("1,2\n3,4\n", {"header": True}, ["1", "2"], [[3, 4]]),
        ("t,1\n3,4\n", {"columns": ["1"]}, ["1"], [[4]]),
        ("5,setosa\n6,setosa\n", {"columns": [0]}, None, [[5], [6]]),
        ("flower,n\nrose,4\n", {"columns": ["n"]}, ["n"], [[4]]),
    ],
)
def test_a_header_is_found_or_declared(tmp_path, content, options, names, rows):
    path = tmp_path / "x.csv"
    path.write_text(content)
    stream = open_stream(path, **options)
    assert stream.feature_names == names
    np.testing.assert_array_equal(np.vstack(list(stream)), rows)


def test_a_first_row_with_one_bad_field_is_not_taken_for_a_header(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,x\n1,2\n")
    with pytest.raises(StreamError, match="line 1"):
        list(open_stream(path))


def test_files_with_other_columns_are_refused(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n1,2\n")
    with pytest.raises(StreamError, match=r"2\.csv has the columns b, a, but .* a, b"):
        list(open_stream(str(tmp_path / "*.csv")))
    rows = np.vstack(list(open_stream(str(tmp_path / "*.csv"), columns=["a", "b"])))
    np.testing.assert_array_equal(rows, [[1, 2], [2, 1]])
    np.save(tmp_path / "1.npy", np.eye(2))
    np.save(tmp_path / "2.npy", np.eye(3))
    with pytest.raises(StreamError, match=r"2\.npy has 3 columns"):
        open_stream(str(tmp_path / "*.npy"), shuffle=True)


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        (
            ",0,1\n0,5,6\n",
            ["0", "1"],
            [[5, 6]],
        ),  # the index, and columns without names of their own
        ("0,1,kind\n5,6,rose\n", ["0", "1"], [[5, 6]]),
    ],
)
def test_numbers_of_columns_are_names_beside_what_is_none(tmp_path, content, names, rows):
    path = tmp_path / "x.csv"
    path.write_text(content)
    stream = open_stream(path, drop=[0] if content.startswith(",") else ["kind"])
    assert stream.feature_names == names
    np.testing.assert_array_equal(np.vstack(list(stream)), rows)


# What a file is like, and what its first reader is told -------------------------------------------

DIALECTS = {
    "index": (",a,b\n0,1.5,2\n1,3,4\n", r"drop=\[0\]", {"drop": [0]}),
    "unnamed": ("Unnamed: 0,a,b\n0,1.5,2\n1,3,4\n", r"drop=\[0\]", {"drop": [0]}),
    "numbered": ("0,1\n1.5,2\n3,4\n", "header=True or header=False", {"header": True}),
    "words": (
        "a,b,kind,place\n1.5,2,rose,x\n3,4,lily,y\n",
        r"'rose' is not a number; leave columns of text out with drop=\['kind', 'place'\]",
        {"drop": ["kind", "place"]},
    ),
    "no header": ("1.5,2,rose\n3,4,lily\n", r"drop=\[2\].*header=True", {"drop": [2]}),
    "twice": ("a,b,a\n1.5,2,9\n3,4,9\n", r"2 columns of the name 'a'.*drop=\[2\]", {"drop": [2]}),
    "semicolons": ("a;b\n1.5;2\n3;4\n", "pass delimiter=';',", {"delimiter": ";"}),
    "tabs": ("a\tb\n1.5\t2\n3\t4\n", r"pass delimiter='\\t',", {"delimiter": "\t"}),
    "blanks": ("1.5  2\n  3 4 \n", "pass delimiter=' ',", {"delimiter": " "}),
    "decimals": (
        "1,5;2\n3,0;4\n",
        "pass delimiter=';' and decimal=','",
        {"delimiter": ";", "decimal": ","},
    ),
    "decimals below names": (
        "a;b\n1,5;2\n3;4\n",
        "pass decimal=','",
        ({"delimiter": ";"}, {"delimiter": ";", "decimal": ","}),
    ),
    "quoted decimals": (
        'a,b\n"1,5","2"\n"3","4"\n',
        "'1,5' is not a number; pass decimal=','",
        {"decimal": ","},
    ),
    "utf-16": ("a,b\n1.5,2\n3,4\n".encode("utf-16"), "encoding='utf-16'", {"encoding": "utf-16"}),
    "utf-16-le": (
        "a,b\n1.5,2\n3,4\n".encode("utf-16-le"),
        "encoding='utf-16-le'",
        {"encoding": "utf-16-le"},
    ),
    "latin-1": (
        "a,größe\n1.5,2\n3,4\n".encode("latin-1"),
        "not UTF-8 text; pass .*encoding='latin-1'",
        {"encoding": "latin-1"},
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_what_a_file_is_like_is_noticed_and_the_remedy_works(tmp_path, name):
    content, message, remedy = DIALECTS[name]
    first, remedy = remedy if isinstance(remedy, tuple) else ({}, remedy)
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StreamError, match=message):
        list(open_stream(path, **first))
    stream = open_stream(path, chunk_bytes=BLOCK * 16, **remedy)
    position = stream.position
    np.testing.assert_array_equal(np.vstack(list(stream)), [[1.5, 2], [3, 4]])
    stream.seek(position)
    np.testing.assert_array_equal(np.vstack(list(stream)), [[1.5, 2], [3, 4]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_that_end_with_cr_alone_are_lines(tmp_path, X, encoding):
    path = tmp_path / "x.csv"
    path.write_bytes(text(X).replace("\n", "\r").encode(encoding))
    stream = open_stream(path, encoding=encoding, chunk_bytes=SMALL)
    first, position = next(stream), stream.position
    np.testing.assert_array_equal(np.vstack([first, *stream]), X)
    stream.seek(position)
    np.testing.assert_array_equal(np.vstack(list(stream)), X[2 * BLOCK :])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32"])
def test_other_encodings_are_read_in_pieces_and_resumed(tmp_path, encoding):
    X = np.random.default_rng(0).standard_normal((9000, WIDTH))  # more than is decoded at a time
    path = tmp_path / "x.csv"
    path.write_bytes(text(X).encode(encoding))
    stream = open_stream(path, encoding=encoding, chunk_bytes=SMALL)
    chunks = [next(stream) for _ in range(40)]
    position = stream.position
    rest = list(stream)
    np.testing.assert_array_equal(np.vstack([*chunks, *rest]), X)
    stream.seek(position)
    np.testing.assert_array_equal(np.vstack(list(stream)), np.vstack(rest))
    path.write_bytes(b"\xff\xfe1\0,\0\0\xd8")
    with pytest.raises(StreamError, match=r"is not text in utf-16.*pass the encoding"):
        list(open_stream(path, encoding="utf-16"))


# Missing values, places and ids -------------------------------------------------------------------


def write_gaps(folder, kind):
    """Rows 1 and 2 of four: one with a missing value, one that is bad where the format allows."""
    names, ids = ["a", "b"], ["p", "q", "r", "s"]
    columns = {"a": [1.0, np.nan, np.inf, 7.0], "b": [2.0, 4.0, 6.0, 8.0]}
    path = folder / f"x.{kind}"
    if kind == "csv":
        path.write_text("id,a,b\np,1,2\nq,NA,4\n\nr,x,6\ns,7,8\n")
    elif kind == "jsonl":
        rows = [{"id": "p", "a": 1, "b": 2}, {"id": "q", "b": 4}, {"id": "r", "a": [], "b": 6}]
        path.write_text("\n".join(map(json.dumps, [*rows, {"id": "s", "a": 7, "b": 8}])))
    elif kind == "parquet":
        parquet.write_table(pa.table({"id": ids} | columns), path)
    else:
        np.save(path, np.array([[10, 20, 30, 40], *(columns[name] for name in names)]).T)
        return path, {"ids": 0}, [10, 20, 30, 40]
    return path, {"ids": "id"}, ids


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_rows_left_out_keep_their_places_and_ids(tmp_path, kind):
    path, options, ids = write_gaps(tmp_path, kind)
    with pytest.raises(StreamError, match="missing='skip'"):
        next(open_stream(path, **options))
    with pytest.raises(StreamError, match="on_bad_row='skip'"):
        next(open_stream(path, missing="skip", **options))
    nan = np.nan
    for missing, second in (("raise", [nan, nan]), ("skip", [nan, nan]), ("keep", [nan, 4])):
        options |= {"on_bad_row": "skip", "missing": missing}
        stream = open_stream(path, keep_places=True, **options)
        np.testing.assert_array_equal(next(stream), [[1, 2], second, [nan, nan], [7, 8]])
        assert list(stream.ids) == ids
        assert stream.n_bad_rows == (1 if missing == "keep" else 2)
        stream = open_stream([path, path], **options)
        rows = [[1, 2], *([second] if missing == "keep" else []), [7, 8]]
        np.testing.assert_array_equal(next(stream), rows * 2)
        assert (
            list(stream.ids)
            == ([i for i in ids if i != ids[2]] if len(rows) == 3 else [ids[0], ids[3]]) * 2
        )


def test_an_array_in_memory_is_not_changed_by_keeping_places():
    X = np.array([[1.0, 2.0], [np.nan, 3.0]])
    stream = open_stream(X, on_bad_row="skip", keep_places=True)
    np.testing.assert_array_equal(next(stream), [[1, 2], [np.nan, np.nan]])
    assert X[1, 1] == 3


@pytest.mark.parametrize("kind", ["named.csv", "x.parquet", "objects.jsonl"])
def test_learned_columns_are_found_by_name(every, X, kind):
    source, _ = every[kind]
    stream = open_stream(source, learned=["d", "a"])
    assert stream.feature_names == ["d", "a"]
    np.testing.assert_array_equal(np.vstack(list(stream)), X[:, [2, 0]])
    with pytest.raises(StreamError, match=r"lacks the columns e, which the model learned; it has"):
        open_stream(source, learned=["e", "a"])
    np.testing.assert_array_equal(next(open_stream(X, learned=["x", "y", "z"])), X)


# Standard input, and sources that run once --------------------------------------------------------


def seek_and_read(stream, position):
    stream.seek(position)
    next(stream)


@pytest.mark.parametrize(
    ("kind", "encode"),
    [
        ("csv", lambda X: text(X, header=True).encode()),
        ("csv", lambda X: b"\n" + text(X).encode()),
        ("jsonl", lambda X: "\n".join(map(json.dumps, X.tolist())).encode()),
        ("float64", lambda X: X.tobytes()),
    ],
)
def test_standard_input_is_read_and_resumed(monkeypatch, X, kind, encode):
    def opened():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encode(X))))
        return open_stream("-", format=kind, width=WIDTH, chunk_bytes=SMALL)

    stream = opened()
    first, position = next(stream), stream.position
    np.testing.assert_array_equal(np.vstack([first, *stream]), X)
    again = opened()
    again.seek(position)
    np.testing.assert_array_equal(np.vstack(list(again)), X[2 * BLOCK :])
    with pytest.raises(StreamError):
        seek_and_read(again, position)


def test_a_pipe_gives_its_rows():
    code = (
        "from hebbnmf.streams import open_stream\n"
        "print(sum(chunk.sum() for chunk in open_stream('-', format='float32', width=2)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], input=np.arange(6, dtype="<f4").tobytes(), capture_output=True
    )
    assert process.stdout.split() == [b"15.0"], process.stderr


def test_a_torn_raw_row_is_a_bad_row(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(np.arange(4.0).tobytes() + b"abc")
    with pytest.raises(StreamError, match=r"row 2 .*ends before its 2 numbers"):
        list(open_stream(path, format="float64", width=2))
    stream = open_stream(path, format="float64", width=2, on_bad_row="skip")
    assert len(next(stream)) == 2
    assert next(stream, None) is None
    assert stream.n_bad_rows == 1


def test_a_source_may_fill_one_buffer_again_and_again(X):
    def filled():
        buffer = np.empty((50, WIDTH))
        for start in range(0, 300, 50):
            buffer[:] = X[start : start + 50]
            yield buffer

    chunks = list(open_stream(filled(), chunk_bytes=1))
    np.testing.assert_array_equal(np.concatenate(chunks), X[:300])


def test_what_runs_once_can_be_resumed_but_not_repeated(X):
    with pytest.raises(StreamError, match="only once"):
        open_stream(iter(X), epochs=2)
    stream = open_stream(iter(X), chunk_bytes=SMALL)
    next(stream)
    again = open_stream((row for row in X), chunk_bytes=SMALL)
    again.seek(stream.position)
    np.testing.assert_array_equal(np.vstack(list(again)), X[2 * BLOCK :])
    with pytest.raises(StreamError, match="cannot go back"):
        seek_and_read(again, stream.position)


# What cannot be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["x.npy", "x.csv", "x.csv.gz", "x.npz::X", "raw", "x.jsonl"])
def test_a_file_that_shrinks_while_read_is_one_clear_error(tmp_path, kind):
    X = np.random.default_rng(0).standard_normal((60_000, WIDTH))
    if kind == "raw":
        path = tmp_path / "x.bin"
        path.write_bytes(X.tobytes())
        stream = open_stream(path, format="float64", width=WIDTH, chunk_bytes=SMALL)
    else:
        path = tmp_path / kind.partition("::")[0]
        stream = open_stream(write(tmp_path, kind, X), chunk_bytes=SMALL)
    next(stream)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StreamError, match=r"restore|cut"):
        list(stream)


@pytest.mark.parametrize("shuffle", [False, True])
def test_hdf5_that_shrinks_while_read_gives_no_zeros(tmp_path, shuffle):
    X = np.random.default_rng(0).standard_normal((60_000, WIDTH))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    stream = open_stream(tmp_path / "x.h5", shuffle=shuffle, random_state=0, chunk_bytes=SMALL)
    next(stream)
    os.truncate(tmp_path / "x.h5", 100_000)
    with pytest.raises(StreamError, match=r"bytes when opened, and has 100000 now"):
        list(stream)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl.gz"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, name, follow):
    content = b"1.0,2.0,3.0\n" if "csv" in name else b"[1.0, 2.0, 3.0]\n"
    content += bytes(2**27)
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    stream = open_stream(tmp_path / name, header=False, follow=follow)
    tracemalloc.start()
    try:
        with pytest.raises(StreamError, match=rf"{name}, line 2: it is longer than 67108864 bytes"):
            list(stream)
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_too_large_to_learn_from_are_bad_unless_nothing_is_learned(tmp_path, X, dtype):
    X = X.copy()
    X[7] = {"float64": 1e100, "float32": 1e20}[dtype]
    (tmp_path / "x.csv").write_text(text(X))
    np.save(tmp_path / "x.npy", X)
    for source, place in (("x.csv", "line 8"), ("x.npy", "row 7"), (X, "row 7")):
        path = tmp_path / source if isinstance(source, str) else source
        with pytest.raises(StreamError, match=rf"{place}.* is too large to learn from"):
            list(open_stream(path, dtype=dtype))
        stream = open_stream(path, dtype=dtype, on_bad_row="skip")
        assert len(next(stream)) == len(X) - 1
        assert stream.n_bad_rows == 1
        assert len(next(open_stream(path, dtype=dtype, learnable=False))) == len(X)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.arrow", "x.h5", "x.jsonl"])
def test_a_file_of_another_kind_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x93nothing of the kind" * 100)
    with pytest.raises(StreamError, match=name):
        open_stream(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.csv.gz", "x.parquet", "x.h5"])
def test_a_missing_file_and_a_folder_are_reported_by_the_system(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="x"):
        open_stream(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="x"):
        open_stream(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("x.png", {}, "names no known format"),
        ("x.npy.gz", {}, "names no known format"),
        ("x.png", {"format": "png"}, "'png' is not known"),
        ("-", {"format": "npy"}, "standard input"),
        ("-", {"format": "float32"}, "pass width"),
        ([], {}, "the list of paths is empty"),
        (5, {}, "cannot be streamed"),
        (iter([]), {}, "empty"),
        (iter([[1, 2], [1, 2, 3]]), {}, "item 1 .* 3 columns without names, but the first has 2"),
        (np.zeros(3), {}, r"two dimensions.*reshape\(1, -1\)"),
        (np.array([["a"]]), {}, "real numbers"),
        (np.zeros((0, 3)), {}, "no row to give"),
        (np.zeros((3, 3)), {"columns": [3]}, "no column 3"),
        (np.zeros((3, 3)), {"columns": ["a"]}, "no column 'a'"),
        (np.zeros((3, 3)), {"width": 4}, "has 3 columns, but width=4"),
        (np.zeros((3, 3)), {"on_bad_row": "drop"}, "on_bad_row='drop'"),
        (np.zeros((3, 3)), {"header": "yes"}, "header='yes'"),
        (np.zeros((3, 3)), {"dtype": int}, "dtype='int64' cannot be used"),
        (np.zeros((3, 3)), {"columns": []}, "at least one name or number"),
        (np.zeros((3, 3)), {"columns": "ab"}, "columns='ab' cannot be used"),
        (np.zeros((3, 3)), {"width": 0}, "width=0 cannot be used"),
        (np.zeros((3, 3)), {"limit": -1}, "limit=-1 cannot be used"),
        (np.zeros((3, 3)), {"epochs": 0}, "epochs=0"),
    ],
)
def test_mistakes_are_explained(source, options, message):
    with pytest.raises(ValueError, match=message):
        list(open_stream(source, **options))


def test_a_pattern_without_files_and_an_empty_file_are_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_stream(str(tmp_path / "*.csv"))
    (tmp_path / "x.csv").write_text("\n\n")
    with pytest.raises(StreamError, match="empty"):
        open_stream(tmp_path / "x.csv")


def test_a_table_with_words_asks_for_columns(tmp_path):
    parquet.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "x.parquet")
    with pytest.raises(StreamError, match="column 'b' holds string"):
        open_stream(tmp_path / "x.parquet")
    stream = open_stream(tmp_path / "x.parquet", columns=["a"])
    np.testing.assert_array_equal(next(stream), [[1], [2]])


def test_an_archive_of_several_arrays_asks_for_one(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(2), Y=np.eye(2))
    with pytest.raises(StreamError, match="holds the arrays X, Y"):
        open_stream(tmp_path / "x.npz")
    write_hdf5(tmp_path / "x.h5", np.zeros((50, WIDTH)))
    with pytest.raises(StreamError, match="acquisition/lfp/data"):
        open_stream(f"{tmp_path / 'x.h5'}::/acquisition/nothing")


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hebbnmf\[hdf5\]'"):
        open_stream(tmp_path / "x.h5")


# Memory -------------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
from hebbnmf.streams import open_stream
open_stream([[0.0]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
n_rows = sum(len(chunk) for chunk in open_stream(sys.argv[1], chunk_bytes=2**20))
print(n_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "csv":
        block = text(np.random.default_rng(0).standard_normal((5000, 10)))
        with path.open("w") as file:
            for _ in range(60):
                file.write(block)
    else:
        np.save(path, np.zeros((300_000, 30)))
    size = path.stat().st_size
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    n_rows, kilobytes = map(int, process.stdout.split())
    assert n_rows == 300_000
    assert size > 50e6
    assert kilobytes * 1024 < 20e6


# Rows as they arrive ------------------------------------------------------------------------------


def test_a_growing_file_gives_whole_lines_as_they_arrive(tmp_path):
    path = tmp_path / "growing.csv"
    path.write_bytes(b"a,b\n1,2\n3,4\n5,")
    with open_stream(path, follow=True) as stream:
        assert next(stream).tolist() == [[1, 2], [3, 4]]
        position = stream.position
        with path.open("ab") as file:
            file.write(b"6\n7,8\n")
        assert next(stream).tolist() == [[5, 6], [7, 8]]
        stream.seek(position)
        assert next(stream).tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize("way", ["moved", "cut"])
def test_a_followed_file_that_is_rotated_goes_on_from_its_new_beginning(tmp_path, way):
    path = tmp_path / "log.csv"
    path.write_bytes(b"a,b\n1,2\n3,4\n5,")  # the last line never ends
    with open_stream(path, follow=True) as stream:
        assert next(stream).tolist() == [[1, 2], [3, 4]]
        if way == "moved":
            path.rename(tmp_path / "log.csv.1")
        path.write_bytes(b"a,b\n6,7\n")
        assert next(stream).tolist() == [[6, 7]]
        position = stream.position
        with path.open("ab") as file:
            file.write(b"8,9\n")
        assert next(stream).tolist() == [[8, 9]]
    with open_stream(path, follow=True) as again:
        again.seek(position)
        assert next(again).tolist() == [[8, 9]]


def test_a_followed_pipe_gives_rows_before_it_ends(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe.write(b"[1, 2]\n[3, 4]\n")
        stream = open_stream("-", format="jsonl", follow=True)
        assert next(stream).tolist() == [[1, 2], [3, 4]]
        pipe.write(b"[5, 6]")
        pipe.close()
        assert [chunk.tolist() for chunk in stream] == [[[5, 6]]]


@pytest.mark.parametrize("options", [{"shuffle": True}, {"epochs": 2}])
def test_what_has_no_end_has_no_second_epoch(tmp_path, options):
    (tmp_path / "a.csv").write_bytes(b"1,2\n")
    with pytest.raises(ValueError, match="it has no end"):
        open_stream(tmp_path / "a.csv", follow=True, **options)


def test_only_one_text_can_be_followed(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    with pytest.raises(StreamError, match="cannot be followed: only text can"):
        open_stream(tmp_path / "a.npy", follow=True)
    with pytest.raises(StreamError, match="2 files cannot be followed"):
        open_stream([tmp_path / "a.csv", tmp_path / "b.csv"], follow=True)


# Limits and lengths -------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["array", "x.csv", "x.parquet", "npy files", "csv pattern"])
def test_a_limited_stream_ends_where_another_goes_on(every, kind, shuffle):
    source, _ = every[kind]
    options = {"epochs": 2, "chunk_bytes": SMALL, "shuffle": shuffle, "random_state": 1}
    whole = np.vstack(list(open_stream(source, **options)))
    limit = N_ROWS + 2 * BLOCK + 5  # in the second epoch, inside a chunk
    limited = open_stream(source, limit=limit, **options)
    np.testing.assert_array_equal(np.vstack(list(limited)), whole[:limit])
    again = open_stream(source, limit=BLOCK, **options)
    again.seek(json.loads(json.dumps(limited.position)))
    np.testing.assert_array_equal(np.vstack(list(again)), whole[limit : limit + BLOCK])


def test_a_limit_of_no_rows_gives_none_and_leaves_the_position(X):
    stream = open_stream(X, limit=0)
    before = stream.position
    assert list(stream) == []
    assert stream.position == before
    assert stream.total == 0


def test_an_empty_source_is_welcome_where_allowed(tmp_path):
    with pytest.raises(StreamError, match="no row to give"):
        next(open_stream(np.zeros((0, 3))))
    assert list(open_stream(np.zeros((0, 3)), allow_empty=True, epochs=2)) == []
    (tmp_path / "x.csv").write_text("a,b\n")
    assert list(open_stream(tmp_path / "x.csv", allow_empty=True)) == []


COUNTED = {"array", "x.npy", "fortran.npy", "x.npz::X", "x.parquet", "x.h5", "raw"}
COUNTED |= {"x.nwb::/acquisition/lfp/data"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_rows_is_known_where_the_format_tells_it(every, kind):
    source, options = every[kind]
    stream = open_stream(source, epochs=3, **options)
    assert stream.n_rows == (N_ROWS if kind in COUNTED else None)
    assert stream.total == (3 * N_ROWS if kind in COUNTED else None)
    assert open_stream(source, limit=50, **options).total == 50
    shuffled = open_stream(source, shuffle=True, **options)
    assert shuffled.n_rows == (N_ROWS if kind in COUNTED | {"npy files"} else None)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_the_total_is_that_of_the_rows_to_come(every, kind, shuffle):
    source, options = every[kind]
    options = {**options, "chunk_bytes": SMALL, "shuffle": shuffle, "random_state": 3}
    stream = open_stream(source, epochs=2, **options)
    for _ in range(4):  # into the second epoch
        next(stream)
    for more in ({}, {"limit": 100}):
        again = open_stream(source, epochs=2, **options, **more)
        again.seek(stream.position)
        assert again.total == sum(map(len, again))
    ended = open_stream(source, epochs=1, **options)
    ended.seek(stream.position)  # of an epoch that it does not have: read to its end
    assert ended.total == sum(map(len, ended)) == N_ROWS - 2 * BLOCK


def test_the_total_is_known_once_an_epoch_was_read(every):
    source, _ = every["x.csv"]
    stream = open_stream(source, epochs=3, chunk_bytes=SMALL)
    assert stream.total is None
    chunks = [next(stream) for _ in range(4)]
    assert stream.total == 3 * N_ROWS == sum(map(len, [*chunks, *stream]))


def test_rows_left_out_are_counted_among_those_stored():
    stream = open_stream([np.eye(3)], on_bad_row="skip")
    assert stream.n_rows is None
    stream = open_stream(np.array([[1.0], [np.nan]]), on_bad_row="skip")
    assert stream.n_rows == stream.total == 2
    assert len(next(stream)) == 1


# Options and formats ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ["a", 2], "header": False, "dtype": np.float32, "on_bad_row": "skip"},
        {"columns": np.array([1, 0]), "dtype": np.dtype("float64"), "width": 3, "format": "csv"},
        {"columns": range(2), "dtype": float},
    ],
)
def test_options_of_reading_survive_json(options):
    record = ReadOptions(**options)
    stored = json.loads(json.dumps(dataclasses.asdict(record)))
    assert ReadOptions(**stored) == record
    assert stored["dtype"] in ("float32", "float64")
    assert hash(record) == hash(ReadOptions(**stored))
    partial = {name: stored[name] for name in options}
    assert ReadOptions(**partial) == record


def test_options_are_given_as_a_record_or_as_keywords(X):
    record = ReadOptions(columns=[1], dtype="float32")
    by_record = np.vstack(list(open_stream(X, options=record)))
    by_keywords = np.vstack(list(open_stream(X, columns=[1], dtype=np.float32)))
    np.testing.assert_array_equal(by_record, by_keywords)
    assert by_record.dtype == np.float32
    with pytest.raises(TypeError, match="options and columns cannot be used together"):
        open_stream(X, options=record, columns=[1])


def test_an_unknown_keyword_is_named_with_those_known(X):
    with pytest.raises(TypeError, match=r"colums=\[0\] cannot .* are columns, header"):
        open_stream(X, colums=[0])


def test_every_format_is_found_by_its_suffix(every):
    assert known_formats() == (
        *("csv", "tsv", "jsonl", "npy", "npz", "parquet", "arrow", "hdf5", "float32", "float64"),
    )
    names = {"feather": "arrow", "nwb": "hdf5", "h5": "hdf5"}
    for kind in WRITERS:
        path = every[kind][0]
        suffix = kind.partition("::")[0].removesuffix(".gz").rpartition(".")[2]
        assert format_of(path) == names.get(suffix, suffix)
        named = open_stream(path, format=format_of(path))
        assert named.n_features == WIDTH
    assert format_of("-") == "csv"
    assert format_of("X.NDJSON") == "jsonl"
    for path in ("x", "x.png", "x.parquet.gz"):
        with pytest.raises(StreamError, match=r"names no known format; pass format, one of csv"):
            format_of(path)


def test_a_bad_value_in_a_shuffled_chain_is_named_by_its_column_in_the_file(tmp_path):
    for number in range(2):
        X = np.ones((5, 3))
        X[3, 2] = number or np.nan
        np.save(tmp_path / f"{number}.npy", X)
    with pytest.raises(StreamError, match=r"0\.npy, row 3 .* column 2 "):
        list(open_stream(str(tmp_path / "*.npy"), columns=[2, 0], shuffle=True))


IMPORTS = """
import sys
from hebbnmf.streams import open_stream
for path in sys.argv[1:]:
    assert sum(map(len, open_stream(path, shuffle=True))) > 0
print(*{"numba", "sklearn", "scipy", "matplotlib"} & sys.modules.keys())
"""


def test_reading_a_file_imports_no_heavy_package(every):
    paths = [every[kind][0] for kind in ("x.csv", "x.npy")]
    process = subprocess.run(
        [sys.executable, "-c", IMPORTS, *paths], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == []


# Frames -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names_whole_or_in_chunks(X, frame):
    whole = frame({name: X[:, j] for j, name in enumerate(NAMES)})
    stream = open_stream(whole, columns=["d", "a"])
    assert stream.feature_names == ["d", "a"]
    np.testing.assert_array_equal(np.vstack(list(stream)), X[:, [2, 0]])
    chunks = open_stream([whole[:50], whole[50:]])
    assert chunks.feature_names == NAMES
    np.testing.assert_array_equal(np.vstack(list(chunks)), X)
    with pytest.raises(
        StreamError, match=r"item 1 .* columns d, b c, a, but the first has .* a, b"
    ):
        list(open_stream([whole[:50], whole[50:][NAMES[::-1]]]))


def test_columns_that_are_numbered_have_no_names(X):
    assert open_stream(pd.DataFrame(X)).feature_names is None
