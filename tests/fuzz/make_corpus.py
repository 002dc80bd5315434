#!/usr/bin/env python3
"""Writes corpus/<format>/: ok-* must be accepted, bad-* refused (src/io/corpus_test.cpp, src/engine/envelope_test.cpp).

The files come from Python's own zipfile, tarfile, gzip and lzma, so they are a second opinion on
the formats. Run it again after a change here; the result is the same bytes every time.
"""
import gzip
import hashlib
import io
import json
import lzma
import pathlib
import struct
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).parent / "corpus"


def put(where, data):
    path = ROOT / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def cuts(where, data, *places):
    """The same file cut off at some places."""
    for place in places:
        put(f"{where}-cut-{place}", data[:place])


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def make_safetensors():
    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    good = {"__metadata__": {"format": "pt"}, "w": tensor("F32", [2, 2], 0, 16),
            "b": tensor("I64", [], 16, 24), "e": tensor("BF16", [0, 3], 24, 24)}
    put("safetensors/ok-four", safetensors(good, bytes(range(24))))
    put("safetensors/ok-empty", safetensors({}))
    put("safetensors/ok-unicode", safetensors(b'{"\\u00fc\\ud83d\\ude00":' + json.dumps(
        tensor("U8", [1], 0, 1)).encode() + b"}  ", b"x"))
    cuts("safetensors/bad", safetensors(good, bytes(24)), 0, 7, 8, 40, 200)
    put("safetensors/bad-overlap", safetensors(
        {"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)))
    put("safetensors/bad-gap", safetensors({"a": tensor("U8", [4], 1, 5)}, bytes(5)))
    put("safetensors/bad-rest", safetensors({"a": tensor("U8", [4], 0, 4)}, bytes(5)))
    put("safetensors/bad-huge-shape", safetensors({"a": tensor("F64", [2**62, 2**62], 0, 0)}))
    put("safetensors/bad-negative", safetensors({"a": tensor("F64", [-1], 0, 8)}, bytes(8)))
    put("safetensors/bad-length", safetensors({}, length=2**63))
    put("safetensors/bad-twice", safetensors(b'{"__metadata__":{},"__metadata__":{}}'))
    put("safetensors/bad-deep", safetensors(b'{"a":' * 50 + b"1" + b"}" * 50))


def npy(descr="<f4", fortran=False, shape=(2, 3), data=None, version=1):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    body = bytes(range(24)) if data is None else data
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + body


def make_npy():
    put("npy/ok-c", npy())
    put("npy/ok-fortran", npy(fortran=True))
    put("npy/ok-version-2", npy(version=2))
    put("npy/ok-version-3", npy("<i8", shape=(3,), version=3))
    put("npy/ok-scalar", npy("<f8", shape=(), data=bytes(8)))
    put("npy/ok-empty", npy("|u1", shape=(0, 5), data=b""))
    put("npy/ok-bool", npy("|b1", shape=(24,), data=bytes([0, 1] * 12)))
    put("npy/ok-half", npy("<f2", shape=(3, 4)))
    put("npy/ok-uint16", npy("<u2", shape=(12,)))
    put("npy/ok-int8", npy("|i1", fortran=True, shape=(4, 6)))
    put("npy/ok-text", npy("<U3", shape=(2,), data="no\0yes".encode("utf-32-le")))
    put("npy/ok-bytes", npy("|S4", shape=(3, 2), fortran=True, data=b"a\0\0\0" * 6))
    put("npy/bad-surrogate", npy("<U1", shape=(1,), data=b"\0\xd8\0\0"))
    put("npy/bad-nul-inside", npy("|S3", shape=(1,), data=b"a\0b"))
    put("npy/bad-latin-1", npy("|S1", shape=(1,), data=b"\xe9"))
    put("npy/bad-no-width", npy("<U0", shape=(2**40,), data=b""))
    put("npy/bad-wide", npy("<U99999999999999999999", shape=(1,)))
    put("npy/bad-uint64", npy("<u8", shape=(3,)))
    put("npy/bad-big-endian", npy(">f4"))
    put("npy/bad-record", npy([("a", "<f4")], shape=(6,)))
    put("npy/bad-huge", npy(shape=(2**40, 2**40)))
    put("npy/bad-short", npy(shape=(7,)))
    put("npy/bad-version", npy(version=9))
    cuts("npy/bad", npy(), 0, 6, 9, 30, 90)


def archive(members, method=zipfile.ZIP_STORED, zip64=True, comment=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.comment = comment
        for name, data in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with file.open(info, "w", force_zip64=zip64) as member:  # as numpy.savez does
                member.write(data)
    return out.getvalue()


def make_npz():
    two = [("x.npy", npy()), ("y.npy", npy("<i8", shape=(3,)))]
    stored = archive(two)
    put("npz/ok-stored", stored)
    put("npz/ok-deflated", archive(two, zipfile.ZIP_DEFLATED))
    put("npz/ok-plain-zip", archive(two[:1], zip64=False, comment=b"with a comment"))
    put("npz/ok-empty", archive([]))
    put("npz/ok-text", archive([("y.npy", npy("<U3", shape=(2,),
                                              data="no\0yes".encode("utf-32-le")))]))
    put("npz/bad-crc", stored.replace(b"\x09\x0a\x0b", b"\x09\x0a\x0c", 1))
    put("npz/bad-text", archive([("readme.txt", b"hello")]))
    put("npz/bad-bzip2", archive(two[:1], zipfile.ZIP_BZIP2))
    put("npz/bad-bomb", archive([("x.npy", bytes(2000000))], zipfile.ZIP_DEFLATED))
    put("npz/bad-directory", stored[:-6] + b"\xff\xff\xff\x7f\0\0")
    cuts("npz/bad", stored, 0, 21, 100, len(stored) - 1)


def make_images():
    images = struct.pack(">4I", 0x803, 2, 3, 4) + bytes(range(24))
    put("idx/ok-images", images)
    put("idx/ok-labels", struct.pack(">2I", 0x801, 4) + bytes([0, 9, 5, 1]))
    put("idx/bad-label", struct.pack(">2I", 0x801, 4) + bytes([0, 10, 5, 1]))
    put("idx/bad-huge", struct.pack(">4I", 0x803, 2**32 - 1, 4096, 4096) + bytes(24))
    put("idx/bad-rows", struct.pack(">4I", 0x803, 2, 0, 2**31))
    put("idx/bad-floats", struct.pack(">4I", 0xD03, 2, 3, 4) + bytes(96))
    put("idx/bad-rest", images + b"x")
    cuts("idx/bad", images, 0, 3, 15, 16, 39)
    put("cifar/ok-one", bytes([9]) + bytes(3072))
    put("cifar/ok-coarse-and-fine", bytes([19, 9]) + bytes(3072))
    put("cifar/bad-label", bytes([10]) + bytes(3072))
    cuts("cifar/bad", bytes(3073), 0, 1, 300)


def make_csv():
    put("csv/ok-plain", b"a,b\n1,2\n3,4\n")
    put("csv/ok-quotes", b'"No","w, d"\r\n1,"N""E"\r\n2,"two\r\nlines"\r\n3,NA\r\n')
    put("csv/ok-numbers", b"x\n-2.77555756156289e-17\nNA\n+5\n1e308\n\n")
    put("csv/ok-mark", b"\xef\xbb\xbfa\n1")
    put("csv/bad-empty", b"")
    put("csv/bad-few", b"a,b\n1\n")
    put("csv/bad-many", b"a,b\n1,2,3\n")
    put("csv/bad-open", b'a\n"x\n')
    put("csv/bad-after", b'a\n"x"y\n')
    put("csv/bad-quote", b'a\nx"y\n')
    put("csv/bad-return", b"a\nx\ry\n")
    put("csv/bad-nul", b"a\n\0\n")
    put("csv/bad-twice", b"a,a\n")


def tape(members, style):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style) as file:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    end = out.getvalue().rstrip(b"\0")
    return end + bytes(-len(end) % 512 + 1024)


def make_tar():
    long = "d/" * 60 + "name"
    put("tar/ok-ustar", tape([("d/a", b"hello"), (long, b"x" * 600)], tarfile.USTAR_FORMAT))
    put("tar/ok-gnu", tape([("n" * 150, b"hello"), ("b", b"")], tarfile.GNU_FORMAT))
    pax = tape([("n" * 150, b"hello"), ("\u00fc", b"y")], tarfile.PAX_FORMAT)
    put("tar/ok-pax", pax)
    put("tar/ok-empty", bytes(1024))
    put("tar/bad-checksum", b"x" + pax[1:])
    put("tar/bad-pax-record", pax.replace(b"path=", b"path:", 1))
    plain = tape([("a", b"hello")], tarfile.USTAR_FORMAT)
    put("tar/bad-text", b"not a tar archive" * 40)
    cuts("tar/bad", plain, 0, 100, 511, 512, 515, 1024)


def make_unpack():
    plain = bytes(i * i >> 4 & 255 for i in range(600))
    packed = gzip.compress(plain, mtime=0)
    delta = [{"id": lzma.FILTER_DELTA, "dist": 32}, {"id": lzma.FILTER_LZMA2, "dict_size": 4096}]
    squeezed = lzma.compress(plain, check=lzma.CHECK_CRC64, filters=delta)
    put("unpack/ok-plain", b"neither")
    put("unpack/ok-gzip", packed)
    put("unpack/ok-gzip-twice", packed + packed)
    put("unpack/ok-xz", squeezed)
    put("unpack/ok-xz-twice", squeezed + bytes(4) + squeezed)
    put("unpack/bad-gzip-rest", packed + b"rest")
    put("unpack/bad-xz-rest", squeezed + b"rest")
    put("unpack/bad-gzip-bomb", gzip.compress(bytes(1000000), mtime=0))
    put("unpack/bad-xz-bomb", lzma.compress(bytes(1000000), filters=delta[1:]))
    put("unpack/bad-gzip-bit", packed[:60] + bytes([packed[60] ^ 4]) + packed[61:])
    put("unpack/bad-xz-bit", squeezed[:60] + bytes([squeezed[60] ^ 4]) + squeezed[61:])
    cuts("unpack/bad-gzip", packed, 3, 9, 100, len(packed) - 1)
    cuts("unpack/bad-xz", squeezed, 6, 12, 100, len(squeezed) - 1)


def make_archive():
    def packed(data):
        return gzip.compress(data, mtime=0)

    def tar(*members):
        return tape(members, tarfile.USTAR_FORMAT)

    one = archive([("d/a.bin", bytes(range(200)))])
    two = archive([("1.zip", one), ("readme", b"hello")], zipfile.ZIP_DEFLATED)
    put("archive/ok-plain", b"neither packed nor an archive")
    put("archive/ok-zip-in-zip", two)
    put("archive/ok-tar-gz", packed(tar(("d/a.bin", b"hello"), ("../b.bin.gz", packed(b"you")))))
    put("archive/ok-tar-in-tar", tar(("a.tar.gz", packed(tar(("a.bin", b"hello"))))))
    put("archive/ok-zip-in-tar", tar(("1.zip", one)))
    put("archive/bad-three-zips", archive([("2.zip", two)]))
    put("archive/bad-three-tars", tar(("2.tar", tar(("1.tar", tar(("a.bin", b"hello")))))))
    # 100 kB each, and the corpus test allows 256 KiB: only all of them together are too much.
    zeros = packed(bytes(100000))
    put("archive/bad-shared", packed(tar(("a.gz", zeros), ("b.gz", zeros), ("c.gz", zeros))))
    nested = archive([("x", bytes(100000))], zipfile.ZIP_DEFLATED)
    put("archive/bad-shared-zips", archive([(name, nested) for name in "abc"]))
    cuts("archive/bad-zip", two, 100, len(two) - 1)


def make_json():
    put("json/ok-object", b'{"method": "FedAvg", "seeds": 3, "p_value": null, "x": [1e-3, true]}')
    put("json/ok-names", '["a", "\u00fc", "\U0001f600", ""]'.encode())
    put("json/ok-escapes", b'"\\u00fc\\ud83d\\ude00\\n\\\\"')
    put("json/ok-64-deep", b"[" * 64 + b"1" + b"]" * 64)
    put("json/bad-65-deep", b"[" * 65 + b"1" + b"]" * 65)
    put("json/bad-deep-objects", b'{"a":' * 5000 + b"1" + b"}" * 5000)
    put("json/bad-empty", b"")
    put("json/bad-rest", b"[1] 2")
    put("json/bad-nul", b"[1]\0")
    put("json/bad-utf-8", b'["\xff"]')
    put("json/bad-surrogate", b'["\\ud800"]')
    cuts("json/bad", b'{"a": [1, "b"]}', 1, 6, 12, 14)


def make_policy():
    example = (ROOT.parents[2] / "examples/policy/policy.toml").read_bytes()
    put("policy/ok-example", example)
    put("policy/ok-empty", b"")
    put("policy/ok-lists", b"""[experiment]
digests = "%s"
[guards]
require = "dp,dp-sgd"
max_epsilon = 8
max_sample_epsilon = 0.5
[send]
categories = ["sex", "a, b"]
most_categories = 12
exhibits = "all"
[when]
hours = ["6:00-8:30", "22:00 - 24:00"]
""" % (b"0f" * 32))
    cuts("policy/bad", example, 700, 1200)
    for name, text in {
        "unknown": b"[send]\ncolums = []\n",
        "section": b"[sent]\ncolumns = []\n",
        "list": b"[[send]]\nname = \"x\"\n",
        "value": b"send = 3\n",
        "type": b"[send]\nlosses = \"no\"\n",
        "size": b"[send]\nlargest_message = \"64 Mb\"\n",
        "hours": b"[when]\nhours = \"20:00-20:00\"\n",
        "day": b"[when]\ndays = \"monday\"\n",
        "bracket": b"[=\n",
        "letter": "[send]\nlosses = true\nmost_categories = 3 \u00a7\n".encode(),
        "key": b"[send]\n\"a\\nb\" = 1\n",
        "deep": b"a = " + b"[" * 300,
    }.items():
        put(f"policy/bad-{name}", text)


def make_schema():
    def schema(shape, columns, pixels=False):
        return json.dumps({"sample_shape": shape, "pixels": pixels, "columns": [
            {"name": name, "categories": list(categories)} for name, categories in columns]}).encode()

    put("schema/ok-table", schema([4], [("age", ""), ("sex", "fm"), ("w\u00e4rme", "")]))
    put("schema/ok-pictures", schema([3, 28, 28], [], True))
    put("schema/ok-series", schema([24, 3], []))
    put("schema/ok-unknown", schema([], []))
    put("schema/bad-count", schema([3], [("age", ""), ("sex", "fm"), ("bp", "")]))
    put("schema/bad-shape", schema([0], []))
    put("schema/bad-rank", schema([1, 2, 3, 4], []))
    put("schema/bad-twice", schema([2], [("age", ""), ("age", "")]))
    put("schema/bad-type", b'{"sample_shape": [1.5], "pixels": 0, "columns": 7}')
    put("schema/bad-empty", b"{}")
    put("schema/bad-list", b"[]")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def make_script_scan():
    """TorchScript files, the code inside and the pickles inside; none of it comes from torch."""
    def text(words):
        return b"X" + struct.pack("<I", len(words)) + words.encode()

    def name(module, word):
        return b"c" + f"{module}\n{word}\n".encode()

    def whole(value):
        return b"J" + struct.pack("<i", value)

    def tensor(values=12, sizes=(3, 4), strides=(4, 1), offset=0, key="0", kind="FloatStorage"):
        shape = [b"(" + b"".join(map(whole, axis)) + b"t" for axis in (sizes, strides)]
        storage = (b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu")
                   + whole(values) + b"tQ")
        return (name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage + whole(offset)
                + shape[0] + shape[1] + b"\x88" + name("collections", "OrderedDict") + b")RtR")

    def pickle(body):
        return b"\x80\x02" + body + b"."

    def net(*slots):
        return name("__torch__", "Net") + b")\x81}(" + b"".join(
            text(key) + value for key, value in slots) + b"ub"

    good = pickle(net(("training", b"\x88"), ("weight", tensor()), ("k", tensor(
        1, (), (), key="1", kind="LongStorage"))))
    code = """class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = ["k", ]
  training : bool
  weight : Tensor
  k : Tensor
  def forward(self: __torch__.Net,
    x: Tensor,
    scale: float=1.,
    size: Tuple[int, int]=(2, 2)) -> Tensor:
    _0 = __torch__.helped
    _1 = "not # code, nor torch.save(x, \\"y\\")"
    if torch.gt(torch.dim(x), 2):
      x0 = torch.flatten(x, 1)
    else:
      ops.prim.RaiseException(_1)
      x0 = unchecked_cast(Tensor, x)
    return _0(torch.linear(x0, getattr(self, "0"), None), )
def helped(x: Tensor) -> Tensor:
  return torch.mul(torch.relu(x), -1.0000000000000001e-05)
"""
    members = [("code/__torch__.py", code.encode()), ("data.pkl", good), ("constants.pkl", pickle(b")")),
               ("data/0", bytes(48)), ("data/1", bytes(8)), ("version", b"3\n")]

    def file(changed=(), method=zipfile.ZIP_STORED, folder="net"):
        changed = dict(changed)
        rest = [(n, d) for n, d in changed.items() if n not in dict(members)]
        parts = [(n, changed.get(n, d)) for n, d in members] + rest
        return archive([(f"{folder}/{n}", d) for n, d in parts if d is not None], method, zip64=False)

    put("script_scan/ok-file", file())
    put("script_scan/ok-file-deflated", file(method=zipfile.ZIP_DEFLATED))
    put("script_scan/ok-file-extra", file([("extra/notes", b"import os"), ("bytecode.pkl", b"?"),
                                            ("code/__torch__.py.debug_pkl", b"?")]))
    put("script_scan/bad-file-version", file([("version", b"x\n")]))
    put("script_scan/bad-file-no-version", file([("version", None)]))
    put("script_scan/bad-file-no-pickle", file([("data.pkl", None)]))
    put("script_scan/bad-file-big-endian", file([("byteorder", b"big")]))
    put("script_scan/bad-file-short-numbers", file([("data/0", bytes(47))]))
    put("script_scan/bad-file-other-folder", archive([("a/version", b"3"), ("b/data.pkl", good)], zip64=False))
    put("script_scan/bad-file-bomb", file([("extra/zeros", bytes(70 << 20))], zipfile.ZIP_DEFLATED))
    put("script_scan/bad-file-save", file([("code/__torch__.py", code.replace(
        "torch.flatten(x, 1)", 'torch.save(x, "/tmp/x")').encode())]))
    put("script_scan/bad-file-module", file([("code/os.py", b"")]))
    put("script_scan/ok-pickle", good)
    put("script_scan/ok-pickle-lists", pickle(net(("a", name("torch.jit._pickle", "build_intlist")
                                                   + b"](K\x01K\x02e\x85R"), ("b", b"}"))))
    put("script_scan/ok-pickle-memo", pickle(b"}q\x00h\x00\x86"))
    for kind, body in {
        "system": name("posix", "system") + text("touch /tmp/x") + b"\x85R",
        "eval": name("builtins", "eval") + b")R",
        "class": name("__torch__", "Other") + b")\x81}b",
        "custom-class": name("__torch__.torch.classes.caffe2", "X") + b")\x81}b",
        "setstate": name("__torch__", "Net") + b")\x81" + tensor() + b"b",
        "quantized": tensor(kind="QInt8Storage"),
        "storage": tensor(values=13),
        "negative": tensor(values=-1),
        "missing": tensor(key="7"),
        "reaches-out": tensor(offset=1),
        "stride": tensor(strides=(5, 1)),
        "below": tensor(strides=(-4, 1)),
        "huge": tensor(sizes=(2**30, 2**30), strides=(0, 0)),
        "axes": tensor(sizes=(3,), strides=(4, 1)),
        "memo-far": b"Nr" + struct.pack("<I", 2**32 - 1),
        "memo-none": b"h\x00",
        "in-itself": b"]q\x00(h\x00e",
        "object-in-itself": name("__torch__", "Net") + b")\x81q\x00}(" + text("a") + b"h\x00ub",
        "twice": b"](Ne(Ne",
        "deep": b"(" * 101 + b"N" + b"t" * 101,
        "no-mark": b"Nt",
        "mark-left": b"(N",
        "two": b"NN",
        "whole-called": b"K\x00)R",
        "string": b"S'x'\n",
        "long": b"\x8a\x09" + bytes(9),
    }.items():
        put(f"script_scan/bad-pickle-{kind}", pickle(body))
    put("script_scan/bad-pickle-rest", good + b"N")
    put("script_scan/bad-pickle-protocol", b"\x80\x04N.")
    cuts("script_scan/bad-pickle", good, 1, 2, 20, 60, 200, len(good) - 1)
    put("script_scan/ok-code", code.encode())
    for kind, line in {
        "save": 'torch.save(x, "/tmp/x")',
        "from-file": 'y = torch.from_file("/etc/passwd", False, 10)',
        "autograd": "y = torch.autograd.save(x)",
        "torch-value": "y = torch",
        "empty": "y = torch.empty([9])",
        "print": 'print("hello")',
        "open": 'y = open("/etc/passwd")',
        "fork": "y = fork(self.forward, x)",
        "method": 'x.save("/tmp/x")',
        "bound-method": "y = x.save",
        "getattr": 'y = getattr(x, "save")',
        "getattr-joined": 'y = getattr(x, "" "save")',
        "getattr-escaped": 'y = getattr(x, "\\163ave")',
        "getattr-value": "y = getattr",
        "text-method": '"a".save("/tmp/x")',
        "number-method": "y = 1.save(x)",
        "ops": "y = ops.c10d.allreduce_(x)",
        "ops-aten": 'ops.aten.save(x, "/tmp/x")',
        "ops-print": "ops.prim.Print(x)",
        "ops-value": "y = ops.prim",
        "custom-class": "y = __torch__.torch.classes.dist_rpc.Rpc(x)",
        "unknown": "y = torch.not_yet_known(x)",
        "comment": "y = x  # torch.save(x)",
        "continued": "y = \\",
        "apostrophes": "y = 'x'",
        "lines": 'y = """x"""',
        "with": "with x as y:",
        "import": "import os",
        "tab": "\ty = x",
        "character": "y = x;",
        "letter": "y = \u00e9",
        "open-text": 'y = "x',
        "bracket": "y = (x]",
        "deep": "y = " + "(" * 65 + "x" + ")" * 65,
        "long": "y = x" + " + x" * 1001,
        "point": "y = x.",
    }.items():
        put(f"script_scan/bad-code-{kind}", code.replace("_0 = __torch__.helped", line, 1).replace(
            "_0(", "torch.relu(").encode())
    put("script_scan/bad-code-setstate", code.replace("def forward", "def __setstate__").encode())
    put("script_scan/bad-code-default", code.replace("=1.,", "=torch.add(1, 2),").encode())
    put("script_scan/bad-code-constant", code.replace(
        "  weight : Tensor", "  weight : Final[int] = __torch__.helped(1)").encode())
    put("script_scan/bad-code-indented-class", code.replace("\n  ", "\n   ").encode())
    put("script_scan/bad-code-outside", ("y = 1\n" + code).encode())


def make_chunk():
    """As fuzz_chunk.cpp reads them: flags, size, SHA-256, then offset, CRC-32C, length, data each."""
    message = bytes(range(200))

    def chunk(begin, end, offset=None, damage=0, text=message):
        data = text[begin:end]
        place = begin if offset is None else offset
        return struct.pack("<QIH", place % 2**64, crc32c(data) ^ damage, len(data)) + data

    def stream(chunks, size=200, digest=None, flags=0):
        sha = hashlib.sha256(message).digest() if digest is None else digest
        return bytes([flags]) + struct.pack("<I", size) + sha + b"".join(chunks)

    three = [chunk(0, 80), chunk(80, 160), chunk(160, 200)]
    put("chunk/ok-one", stream([chunk(0, 200)]))
    put("chunk/ok-three", stream(three))
    put("chunk/ok-bytes", stream([chunk(i, i + 1) for i in range(200)]))
    put("chunk/ok-resumed", stream([three[0], chunk(80, 160, damage=1), three[1], three[2]]))
    put("chunk/ok-mended", stream([chunk(0, 99, damage=7), chunk(99, 200, damage=7)],
                                  digest=bytes(32), flags=3))
    put("chunk/bad-gap", stream([three[0], three[2]]))
    put("chunk/bad-overlap", stream([three[0], chunk(79, 200)]))
    put("chunk/bad-repeated", stream([three[0], three[0], three[2]]))
    put("chunk/bad-order", stream(three[::-1]))
    put("chunk/bad-crc", stream([three[0], chunk(80, 160, damage=2**31), three[2]]))
    put("chunk/bad-digest", stream(three, digest=bytes(32)))
    put("chunk/bad-excess", stream(three, size=199))
    put("chunk/bad-missing", stream(three, size=201))
    put("chunk/bad-empty-chunk", stream([chunk(0, 0), chunk(0, 199)]))
    put("chunk/bad-offset", stream([chunk(0, 200, offset=-1)]))
    put("chunk/bad-far", stream([chunk(0, 200, offset=2**63 - 1)]))
    put("chunk/bad-no-size", stream([], size=0))
    put("chunk/bad-huge-size", stream(three, size=2**32 - 1))
    cuts("chunk/bad", stream(three), 0, 36, 37, 60, 200)


def make_secure_sum():
    """The messages of src/guard/secure_aggregation/sum/sum_messages.hpp, from their description."""
    session = bytes(range(16))

    def message(kind, *fields, version=1):
        return b"TSUM" + bytes([version, kind]) + b"".join(fields)

    def number(value):
        return struct.pack("<q", value)

    def listed(*entries, count=None):
        return struct.pack("<I", len(entries) if count is None else count) + b"".join(entries)

    def ids(*values, count=None):
        return listed(*map(number, values), count=count)

    def key(byte):
        return bytes([byte]) * 32

    def packet(peer):
        return number(peer) + bytes([peer]) * 80 + key(1) + key(2)

    def plan(clients, words=4, degree=None):
        return message(1, session, struct.pack("<QII", 3, words, len(clients) - 1 if degree is None
                                               else degree), ids(*clients))

    keys = message(2, session, number(1), key(1), key(2))
    shares = message(4, session, number(1), key(7), listed(packet(1), packet(2), packet(5)))
    masked = message(6, session, number(1), listed(*(struct.pack("<Q", 2**64 - i) for i in
                                                     range(1, 5))))
    reveal = message(8, session, number(1), listed(number(1) + key(1), number(2) + key(2)),
                     listed(number(5) + key(3)))
    put("secure_sum/ok-plan", plan([1, 2, 5]))
    put("secure_sum/ok-plan-ring", plan(list(range(101)), degree=42))
    put("secure_sum/ok-keys", keys)
    put("secure_sum/ok-key-list", message(3, session, listed(*(number(i) + key(i) + key(i + 1) for i in
                                                               (1, 2, 5)))))
    put("secure_sum/ok-shares", shares)
    put("secure_sum/ok-delivery", message(5, session, listed(packet(1), packet(2), packet(5))))
    put("secure_sum/ok-vector", masked)
    put("secure_sum/ok-request", message(7, session, ids(1, 2), ids(5)))
    put("secure_sum/ok-request-empty", message(7, session, ids(), ids()))
    put("secure_sum/ok-reveal", reveal)
    put("secure_sum/bad-empty", b"")
    put("secure_sum/bad-magic", b"TSUN" + keys[4:])
    put("secure_sum/bad-version", message(2, keys[6:], version=2))
    put("secure_sum/bad-kind-0", message(0, keys[6:]))
    put("secure_sum/bad-kind-9", message(9, keys[6:]))
    put("secure_sum/bad-rest", keys + b"x")
    put("secure_sum/bad-client", message(2, session, number(-1), key(1), key(2)))
    put("secure_sum/bad-plan-two", plan([1, 2]))
    put("secure_sum/bad-plan-order", plan([1, 5, 2]))
    put("secure_sum/bad-plan-no-words", plan([1, 2, 5], words=0))
    put("secure_sum/bad-plan-degree", plan(list(range(9)), degree=4))
    put("secure_sum/bad-twice", message(7, session, ids(1, 1), ids()))
    put("secure_sum/bad-negative", message(7, session, ids(-1, 1), ids()))
    put("secure_sum/bad-claims", message(7, session, ids(1, count=2**32 - 1)))
    put("secure_sum/bad-words", message(6, session, number(1), listed(b"x" * 8, count=2)))
    cuts("secure_sum/bad-keys", keys, 5, 6, 22, 93)
    cuts("secure_sum/bad-shares", shares, 62, 66, 74, len(shares) - 1)
    cuts("secure_sum/bad-reveal", reveal, 30, 34, len(reveal) - 40)


def make_envelope():
    """Tasks and replies of docs/protocol.md: the file's name says which it is meant to be."""
    def message(meta, tensors=()):
        header, data = {"__metadata__": meta}, b""
        for name, dtype, shape, part in tensors:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        return safetensors(header, data)

    def meta(kind, **more):
        return {"client": "3", "kind": kind, "round": "7", "attempt": "1", **more}

    def doubles(*values):
        return struct.pack(f"<{len(values)}d", *values)

    def wholes(*values):
        return struct.pack(f"<{len(values)}q", *values)

    model = ("F32", [2], bytes(8))
    numbers = ("numbers", "F64", [1, 2], doubles(0.5, 1.0))
    row = (4, 3) + (0.25,) * 6 + (float("nan"),)
    rows = ("metrics", "F64", [4, 9], doubles(*row * 4))
    more_rows = ("metrics", "F64", [6, 9], doubles(*row * 6))
    table = wholes(2, 1, 0, 1)  # 3 of 4 are right
    tables = [("confusion/pre", "I64", [2, 2], table), ("confusion/post", "I64", [2, 2], table)]
    hello = dict(name="north", train="8", val="1", test="2", support="0")

    put("envelope/ok-task-hello", message(meta("hello", flags="0")))
    put("envelope/ok-task-train", message(meta("train", flags="0"), [("down/w", *model)]))
    put("envelope/ok-task-join", message(meta("join", flags="0"), [("down/w", *model)]))
    put("envelope/ok-task-evaluate", message(meta("evaluate", flags="6"), [
        ("down/w", *model), ("global/w", *model), ("global/b", *model)]))
    put("envelope/ok-task-settle", message(meta("settle", flags="1")))
    put("envelope/ok-task-guard", message(meta("guard", flags="0"), [("down/keys", "U8", [3], bytes(3))]))
    put("envelope/bad-task-flags", message(meta("train", flags="1")))
    put("envelope/bad-task-no-flags", message(meta("train")))
    put("envelope/bad-task-kind", message(meta("stop", flags="0")))
    put("envelope/bad-task-number", message(dict(meta("hello", flags="0"), client="-1")))
    put("envelope/bad-task-huge", message(dict(meta("hello", flags="0"), round="9" * 19)))
    put("envelope/bad-task-tensor", message(meta("settle", flags="0"), [("down/w", *model)]))
    put("envelope/bad-task-key", message(meta("hello", flags="0", more="1")))
    put("envelope/ok-reply-hello", message(meta("hello", **hello), [numbers]))
    put("envelope/ok-reply-train", message(meta("train"), [numbers, ("up/w", *model)]))
    put("envelope/ok-reply-evaluate", message(meta("evaluate"), [
        numbers, rows, ("notes/a", *model)]))
    put("envelope/ok-reply-last", message(meta("evaluate"), [numbers, more_rows] + tables))
    put("envelope/ok-reply-settle", message(meta("settle"), [numbers]))
    put("envelope/ok-reply-guard", message(meta("guard"), [numbers, ("up/shares", "U8", [3], bytes(3))]))
    put("envelope/ok-reply-failed", message(meta("train", error="busy", message="no time"), [numbers]))
    put("envelope/bad-reply-error", message(meta("train", error="tired", message=""), [numbers]))
    put("envelope/bad-reply-failed-up", message(
        meta("train", error="busy", message=""), [numbers, ("up/w", *model)]))
    put("envelope/bad-reply-no-numbers", message(meta("train")))
    put("envelope/bad-reply-numbers", message(meta("train"), [("numbers", "F64", [2, 1], doubles(0, 0))]))
    put("envelope/bad-reply-hello", message(meta("hello", name="north"), [numbers]))
    put("envelope/bad-reply-name", message(meta("train", name="north"), [numbers]))
    put("envelope/bad-reply-five-rows", message(meta("evaluate"), [
        numbers, ("metrics", "F64", [5, 9], doubles(*row * 5))]))
    put("envelope/bad-reply-type", message(meta("evaluate"), [
        numbers, ("metrics", "F32", [4, 9], bytes(144))]))
    put("envelope/bad-reply-count", message(meta("evaluate"), [
        numbers, ("metrics", "F64", [4, 9], doubles(*(3, 4) + row[2:] + row * 3))]))
    put("envelope/bad-reply-one-table", message(meta("evaluate"), [numbers, rows, tables[0]]))
    put("envelope/bad-reply-sum", message(meta("evaluate"), [
        numbers, rows, tables[0], ("confusion/post", "I64", [2, 2], wholes(2, 1, 2**62, 1))]))
    put("envelope/bad-reply-below-0", message(meta("evaluate"), [
        numbers, rows, tables[0], ("confusion/post", "I64", [2, 2], wholes(2, 2, -1, 1))]))
    put("envelope/bad-reply-classes", message(meta("evaluate"), [
        numbers, rows, tables[0], ("confusion/post", "I64", [3, 3], wholes(3, 1, *[0] * 7))]))
    put("envelope/bad-reply-notes", message(meta("train"), [numbers, ("notes/a", *model)]))

    def figures(place, value):
        values = list(row) * 4
        values[place] = value
        return message(meta("evaluate"), [numbers, ("metrics", "F64", [4, 9], doubles(*values))])

    def trained(loss, seconds):
        return message(meta("train"), [("numbers", "F64", [1, 2], doubles(loss, seconds))])

    put("envelope/ok-reply-diverged", figures(2, float("inf")))
    put("envelope/ok-reply-loss-below-0", trained(-3.0, 0.0))
    put("envelope/bad-reply-auroc", figures(7, 1e300))
    put("envelope/bad-reply-f1-below-0", figures(4, -0.5))
    put("envelope/bad-reply-calibration", figures(8, float("inf")))
    put("envelope/bad-reply-loss", trained(1e300, 0.0))
    put("envelope/bad-reply-seconds", trained(0.5, float("inf")))
    put("envelope/bad-reply-seconds-nan", trained(0.5, float("nan")))
    put("envelope/bad-reply-reason", message(meta("train", error="busy", message="x" * 1001), [numbers]))
    put("envelope/bad-reply-long-name", message(meta("hello", **dict(hello, name="n" * 257)), [numbers]))
    put("envelope/bad-reply-samples", message(meta("hello", **dict(hello, train="1" + "0" * 18)), [numbers]))


for make in (make_safetensors, make_npy, make_npz, make_images, make_csv, make_tar, make_unpack,
             make_archive, make_json, make_policy, make_schema, make_script_scan, make_chunk, make_envelope,
             make_secure_sum):
    make()
