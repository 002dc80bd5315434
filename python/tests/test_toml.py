import math
import pathlib
import unittest

import numpy as np
import tessera
from tessera._toml import flatten, toml, toml_value

try:
    import tomllib
except ImportError:
    tomllib = None


class Toml(unittest.TestCase):
    def test_sections_come_after_the_keys_of_their_parent(self):
        text = toml({"method": {"fedprox": {"mu": 0.1}, "name": "fedavg"}, "rounds": 2})
        self.assertEqual(text, 'rounds = 2\n\n[method]\nname = "fedavg"\n\n[method.fedprox]\n'
                               "mu = 0.1\n")

    def test_values(self):
        for value, expected in [
                (True, "true"), (False, "false"), (0, "0"), (-7, "-7"), (2.0, "2.0"),
                (1e-5, "1e-05"), (math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"),
                ([64, 32], "[64, 32]"), ((), "[]"), ([[1], ["a"]], '[[1], ["a"]]'),
                (np.float32(0.5), "0.5"), (np.int64(3), "3"), (np.bool_(True), "true"),
                (np.arange(3), "[0, 1, 2]"), (pathlib.PurePosixPath("/a/b"), '"/a/b"'),
                ('say "hi"\\', '"say \\"hi\\"\\\\"'), ("a\nb\x00\x7f", '"a\\nb\\u0000\\u007F"'),
                ("Zürich", '"Zürich"'), ([{"a b": 1}], '[{"a b" = 1}]')]:
            self.assertEqual(toml_value(value, "key"), expected)

    @unittest.skipIf(tomllib is None, "Python before 3.11 has no TOML parser to compare with")
    def test_reads_back_the_same(self):
        hard = {"a.b": 'quote " slash \\ tab \t ü \U0001F600', "empty": "", "": 1,
                "list": [1.5, -2.0, 1e300, 5e-324], "most": 2**63 - 1, "least": -2**63,
                "deep": {"x y": {"z": [True, False]}, "plain": 1}}
        self.assertEqual(tomllib.loads(toml(hard)), hard)

    def test_what_toml_has_no_word_for_is_named(self):
        for value, words in [(None, "None"), (1j, "complex"), (2**63, "64 bits"),
                             ("\ud800", "Unicode")]:
            with self.assertRaises(tessera.Error) as caught:
                toml({"train": {"lr": value}})
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(tessera.Error, "train.lr: None"):
            toml({"train": {"lr": None}})
        with self.assertRaisesRegex(tessera.Error, "3"):
            toml({"train": {3: 1}})

    def test_sets_may_be_nested(self):
        self.assertEqual(list(flatten({"rounds": 2, "train": {"lr": 0.1}, "a.b": 3})),
                         [("rounds", 2), ("train.lr", 0.1), ("a.b", 3)])
