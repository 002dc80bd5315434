import hashlib
import pathlib
import struct
import tempfile
import unittest

import numpy as np
import tessera
from support import packed
from tessera._safetensors import read_metadata, read_safetensors


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


class SafeTensors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.safetensors"

    def write(self, data):
        self.path.write_bytes(data)
        return self.path

    def test_numbers_written_by_hand(self):
        data = (struct.pack("<6f", 1, 2, 3, 4, 5, 6) + struct.pack("<q", -9) + b"\x01\x00" +
                struct.pack("<2H", 0x3F80, 0xC040))
        state = read_safetensors(self.write(packed(
            {"__metadata__": {"method": "fedavg"}, "w": entry("F32", [2, 3], 0, 24),
             "n": entry("I64", [], 24, 32), "on": entry("BOOL", [2], 32, 34),
             "half": entry("BF16", [2], 34, 38), "none": entry("F32", [0, 4], 38, 38)}, data)))
        np.testing.assert_array_equal(state["w"], np.array([[1, 2, 3], [4, 5, 6]], np.float32))
        self.assertEqual((state["n"].shape, state["n"].item()), ((), -9))
        self.assertEqual(state["on"].tolist(), [True, False])
        self.assertEqual(state["half"].tolist(), [1.0, -3.0])  # bits of bfloat16
        self.assertEqual(state["none"].shape, (0, 4))
        self.assertEqual(state.metadata, {"method": "fedavg"})
        self.assertEqual(read_metadata(self.path), {"method": "fedavg"})
        for array in state.values():  # torch.from_numpy asks for both
            self.assertTrue(array.flags.writeable and array.dtype.isnative)

    def test_spaces_after_the_header(self):
        header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   '
        self.assertEqual(read_safetensors(self.write(packed(header, b"\x07")))["a"].tolist(), [7])

    def test_samples_are_prepared_as_in_training(self):
        def state(**metadata):
            return read_safetensors(self.write(packed({"__metadata__": metadata})))

        table = state(scaling='{"mean": [1, 2], "scale": [2, 0.5]}')
        self.assertEqual(table.prepare([[1, 2], [2, 6]]).tolist(), [[0, 0], [2, 2]])
        self.assertEqual(table.prepare([[[1, 2], [2, 6]]]).tolist(), [[[0, 0], [2, 2]]])  # series
        self.assertEqual(table.prepare([[1, 2]]).dtype, np.float32)
        pixels = np.array([[[[0, 255]], [[51, 102]]]], np.uint8)  # [1, 2 channels, 1, 2]
        pictures = state(scaling='{"mean": [0, 0.2], "scale": [1, 10]}', input='{"pixels": true}')
        np.testing.assert_allclose(pictures.prepare(pixels), [[[[0, 1]], [[0, 2]]]], atol=1e-6)
        self.assertEqual(state().prepare(pixels).max(), 255)  # nothing said, nothing done
        for samples in [[1.0, 2.0, 3.0]], [1.0, 2.0], np.zeros((1, 3, 2, 2)):
            with self.assertRaisesRegex(tessera.Error, "do not fit the scaling"):
                table.prepare(samples)
        for text in "[]", "{":
            with self.assertRaisesRegex(tessera.Error, "'scaling'"):
                state(scaling=text).prepare([[1.0]])

    def refuse(self, data, words):
        with self.assertRaises(tessera.Error) as caught:
            read_safetensors(self.write(data))
        self.assertIn(words, str(caught.exception))
        self.assertIn(str(self.path), str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_every_cut_is_noticed(self):
        whole = packed({"a": entry("F32", [2], 0, 8)}, struct.pack("<2f", 1, 2))
        read_safetensors(self.write(whole))
        for size in range(len(whole)):
            with self.assertRaises(tessera.Error, msg=f"{size} bytes"):
                read_safetensors(self.write(whole[:size]))
        self.refuse(whole + b"\x00", "holds 9")

    def test_lengths_that_lie(self):
        self.refuse(struct.pack("<Q", 2**63) + b"{}", "claims 9223372036854775808 bytes")
        self.refuse(struct.pack("<Q", 3) + b"{}", "claims 3 bytes")
        self.refuse(packed({"a": entry("F32", [2**40, 2**40], 0, 4)}, bytes(4)), "needs")
        self.refuse(packed({"a": entry("F32", [1], 0, 2**62)}, bytes(4)), "data_offsets")
        self.refuse(packed({"a": entry("F32", [1], 4, 0)}, bytes(4)), "data_offsets")

    def test_places_that_overlap_or_leave_holes(self):
        one = entry("F32", [1], 0, 4)
        self.refuse(packed({"a": one, "b": one}, bytes(4)), "'b' begin at 0, not at 4")
        self.refuse(packed({"a": entry("F32", [1], 4, 8)}, bytes(8)), "begin at 4, not at 0")

    def test_headers_that_are_none(self):
        self.refuse(packed(b"[]"), "not a JSON object")
        self.refuse(packed(b"{"), "not valid JSON")
        self.refuse(packed(b"\xff\xfe"), "not valid JSON")
        self.refuse(packed(b"[" * 100000), "not valid JSON")
        self.refuse(packed(b'{"a":1,"a":2}'), "twice")
        self.refuse(packed({"__metadata__": {"a": 1}}), "metadata")
        self.refuse(packed({"a": 3}), "dtype None")
        self.refuse(packed({"a": entry("F8_E4M3", [1], 0, 1)}, bytes(1)), "F8_E4M3")
        for shape in [-1], [True], ["1"], 4, [1.0]:
            self.refuse(packed({"a": entry("U8", shape, 0, 1)}, bytes(1)), "shape")
        self.refuse(packed({"a": entry("U8", [1] * 33, 0, 1)}, bytes(1)), "dimensions")
        self.refuse(packed({"a": {"dtype": "U8", "shape": [1]}}, bytes(1)), "data_offsets")
        self.refuse(packed({"a": entry("BOOL", [1], 0, 1)}, b"\x02"), "truth")

    def test_the_digest_of_our_files(self):
        # docs/formats.md by hand: metadata, then the tensors by name.
        data = struct.pack("<f", 1.5) + b"\x05"
        digest = hashlib.sha256(b"6 client1 3" + b"1 a2 U81 1" + b"\x05" + b"1 z3 F320 " +
                                struct.pack("<f", 1.5)).hexdigest()
        header = {"__metadata__": {"client": "3", "tessera_sha256": digest},
                  "z": entry("F32", [], 0, 4), "a": entry("U8", [1], 4, 5)}
        self.assertEqual(read_safetensors(self.write(packed(header, data)))["z"].item(), 1.5)
        self.refuse(packed(header, data[:4] + b"\x06"), "do not match")
        header["__metadata__"]["client"] = "4"
        self.refuse(packed(header, data), "do not match")

    def test_a_file_that_is_not_there(self):
        with self.assertRaisesRegex(tessera.Error, "No such file"):
            read_safetensors(self.path)
