"""What is said to the program and what comes of its answers; small scripts stand for it."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import numpy as np
import tessera
from tessera import _program


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fake(self, body, name="fake"):
        """A program whose arguments are in `args`; it keeps them in arguments.json."""
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n"
                        "args = sys.argv[1:]\n"
                        f"json.dump(args, open({str(self.folder / 'arguments.json')!r}, 'w'))\n" +
                        textwrap.dedent(body))
        path.chmod(0o755)
        return path

    def arguments(self):
        return json.loads((self.folder / "arguments.json").read_text())

    def test_where_the_program_is_looked_for(self):
        given, named = self.fake("", "given"), self.fake("", "named")
        on_path = self.fake("", "tessera")
        with mock.patch.dict(os.environ, {"TESSERA": str(named), "PATH": str(self.folder)}):
            self.assertEqual(tessera.find_program(given), str(given))
            self.assertEqual(tessera.find_program(), str(named))
            del os.environ["TESSERA"]
            self.assertEqual(tessera.find_program(), str(on_path))

    def test_last_comes_the_build_of_a_source_tree(self):
        (self.folder / "build" / "release").mkdir(parents=True)
        module = self.folder / "python" / "tessera" / "_program.py"
        nothing = {"TESSERA": "", "PATH": str(self.folder / "empty")}
        with mock.patch.object(_program, "__file__", str(module)), mock.patch.dict(
                os.environ, nothing):
            with self.assertRaisesRegex(tessera.Error, "build/release/tessera; build it"):
                tessera.find_program()
            built = self.fake("", "build/release/tessera")
            self.assertEqual(tessera.find_program(), str(built.resolve()))

    def test_a_program_that_was_named_must_be_there(self):
        self.fake("", "tessera")
        with mock.patch.dict(os.environ, {"TESSERA": "/no/such", "PATH": str(self.folder)}):
            with self.assertRaisesRegex(tessera.Error, r"\$TESSERA says /no/such"):
                tessera.find_program()

    def test_every_argument_becomes_a_flag(self):
        fake = self.fake("sys.stderr.write('tessera: stop here\\n'); sys.exit(2)")
        with self.assertRaises(tessera.Error) as caught:
            tessera.run("x.toml", "-odd", sets={"train": {"lr": 0.1}, "name": "a b"},
                        seed=np.int64(4), threads=2, data_dir=pathlib.Path("d"), metric="auroc",
                        resume=True, force=True, quiet=True, program=fake)
        self.assertEqual((str(caught.exception), caught.exception.code), ("stop here", 2))
        self.assertEqual(self.arguments(), [
            "run", "x.toml", "--set=train.lr=0.1", '--set=name="a b"', "--set=seed=4", "--out=-odd",
            "--data-dir=d", "--threads=2", "--metric=auroc", "--force", "--quiet", "--resume"])

    def test_arguments_of_a_comparison(self):
        fake = self.fake("sys.exit(1)")
        for seeds, flags in [(None, []), (3, ["--seeds=3"]), ([4, 7], ["--seeds=4,7"]),
                             (range(1, 3), ["--seeds=1,2"]), ([9], ["--set=seed=9"])]:
            with self.assertRaises(tessera.Error):
                tessera.compare("-x.toml", ["fedavg", "fedacs:p=0.9"], seeds, strict=True,
                                program=fake)
            self.assertEqual(sorted(self.arguments()), sorted(
                ["compare", "./-x.toml", "--methods=fedavg,fedacs:p=0.9", "--strict", *flags]))
        for methods in [], "", ["a,b"], [""], [3]:
            with self.assertRaisesRegex(tessera.Error, "methods"):
                tessera.compare("x.toml", methods, program=fake)
        with self.assertRaisesRegex(tessera.Error, "seeds"):
            tessera.compare("x.toml", "fedavg", [], program=fake)

    def test_the_error_is_what_was_said_last(self):
        for body, words in [
                ("sys.stderr.write('round 1\\ntessera: one\\ntessera: two\\n'); sys.exit(2)",
                 "one\ntwo"),
                ("sys.stderr.write('tessera: a note\\nround 1\\ntessera: why\\n'); sys.exit(1)",
                 "why"),
                ("sys.stderr.write('who knows'); sys.exit(3)",
                 "tessera ended with exit code 3\nwho knows"),
                ("os.kill(os.getpid(), signal.SIGKILL)", "tessera was killed by signal 9")]:
            with self.assertRaises(tessera.Error) as caught:
                tessera.run("x.toml", program=self.fake(body), quiet=True)
            self.assertEqual(str(caught.exception), words)

    def test_progress_comes_through_and_an_error_once(self):
        body = "sys.stderr.write('round 1\\ntessera: why\\n'); sys.exit(1)"
        screen = io.StringIO()
        with contextlib.redirect_stderr(screen), self.assertRaisesRegex(tessera.Error, "why"):
            tessera.run("x.toml", program=self.fake(body))
        self.assertEqual(screen.getvalue(), "round 1\n")
        # A note of a run that went well is for the screen.
        body = "sys.stderr.write('tessera: a note\\n'); print('/no/such/report.html')"
        screen = io.StringIO()
        with contextlib.redirect_stderr(screen), self.assertRaisesRegex(tessera.Error, "/no/such"):
            tessera.run("x.toml", program=self.fake(body))
        self.assertEqual(screen.getvalue(), "tessera: a note\n")

    def test_a_dict_is_written_as_toml_and_called_config(self):
        fake = self.fake("""
            sys.stderr.write(args[1] + ":1:1: " + open(args[1]).read().replace("\\n", "|"))
            sys.exit(2)""")
        with self.assertRaises(tessera.Error) as caught:
            tessera.run({"rounds": 2, "data": {"set": "npz"}}, program=fake, quiet=True)
        self.assertIn('config:1:1: rounds = 2||[data]|set = "npz"|', str(caught.exception))
        self.assertFalse(os.path.exists(self.arguments()[1]))

    def test_predict(self):
        fake = self.fake("""
            data = args[3].split("=", 1)[1]
            import shutil
            shutil.copy(data, %r)
            print(json.dumps({"client": "7", "view": "post", "classes": ["no", "yes"],
                              "predicted": ["yes", "no"], "labels": [1, 0],
                              "probabilities": [[0.25, 0.75], [0.5, 0.5]]}))""" %
                         str(self.folder / "sent.npz"))
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        answer = tessera.predict("runs/a", 7, x, program=fake)
        self.assertEqual((answer.client, answer.view, answer.classes), ("7", "post", ["no", "yes"]))
        self.assertEqual(answer.predicted.tolist(), ["yes", "no"])
        self.assertEqual(answer.labels.tolist(), [1, 0])
        self.assertEqual(answer.probabilities.tolist(), [[0.25, 0.75], [0.5, 0.5]])
        sent = self.arguments()
        self.assertEqual(sent[:3] + sent[4:],
                         ["predict", "runs/a", "--client=7", "--proba", "--json"])
        np.testing.assert_array_equal(np.load(self.folder / "sent.npz")["x"], x)
        tessera.predict("runs/a", "7", self.folder / "sent.npz", program=self.fake(
            'print(json.dumps({"client": "7", "view": "pre", "classes": ["a"], "predicted": [],'
            ' "labels": [], "probabilities": []}))'))
        self.assertEqual(self.arguments()[3], f"--data={self.folder / 'sent.npz'}")

    def test_answers_that_are_none(self):
        right = {"client": "7", "view": "post", "classes": ["a"], "predicted": ["a"], "labels": [0],
                 "probabilities": [[1.0]]}
        for wrong in ["", "3", json.dumps({**right, "labels": [0, 0]}),
                      json.dumps({**right, "probabilities": [[1.0, 2.0]]}),
                      json.dumps({**right, "classes": 3})]:
            with self.assertRaisesRegex(tessera.Error, "same version"):
                tessera.predict("r", "7", [[1.0]], program=self.fake(f"print({wrong!r})"))
        with self.assertRaisesRegex(tessera.Error, "x: "):
            tessera.predict("r", "7", [[1.0], [1.0, 2.0]], program=self.fake("print(1)"))

    def test_ctrl_c_is_passed_on_once_and_waited_for(self):
        ready, ended = self.folder / "ready", self.folder / "ended"
        fake = self.fake(f"""
            count = 0
            def on_signal(*_):
                global count
                count += 1
            signal.signal(signal.SIGINT, on_signal)
            open({str(ready)!r}, "w").close()
            limit = time.time() + 20
            while not count and time.time() < limit:
                time.sleep(0.01)
            time.sleep(0.2)  # a second one would arrive here
            open({str(ended)!r}, "w").write(str(count))
            sys.exit(130)""")
        package = pathlib.Path(tessera.__file__).parents[1]
        script = (f"import sys; sys.path.insert(0, {str(package)!r})\nimport tessera\n"
                  f"try: tessera.run('x.toml', program={str(fake)!r})\n"
                  "except KeyboardInterrupt: sys.exit(77)\n")
        # A group of its own, signalled as a terminal does: everybody in it.
        process = subprocess.Popen([sys.executable, "-B", "-c", script], start_new_session=True)
        try:
            while not ready.exists() and process.poll() is None:
                pass
            os.killpg(process.pid, signal.SIGINT)
            self.assertEqual(process.wait(timeout=30), 77)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(ended.read_text(), "1")


class Package(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_the_example_draws(self):
        source = pathlib.Path(__file__).resolve().parents[1]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-B", source / "examples" / "plot.py"], cwd=folder,
                env={**os.environ, "PYTHONPATH": str(source), "MPLBACKEND": "Agg",
                     "MPLCONFIGDIR": folder, "TMPDIR": folder},
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("fedacs", done.stdout)
            picture = pathlib.Path(folder) / "hospitals.png"
            self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("pip", "setuptools", "wheel"))),
                         "pip, setuptools or wheel is not installed")
    def test_installs_without_a_network(self):
        source = pathlib.Path(__file__).resolve().parents[1]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            # A copy: setuptools leaves folders beside what it builds.
            shutil.copytree(source, folder / "python",
                            ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation",
                 "--no-deps", "--no-index", "--disable-pip-version-check", "--target",
                 folder / "site", folder / "python"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            said = subprocess.run(
                [sys.executable, "-c",
                 "import tessera; print(tessera.__version__, tessera.__file__)"],
                env={**os.environ, "PYTHONPATH": str(folder / "site")}, cwd=folder,
                capture_output=True, text=True, check=True).stdout
            self.assertEqual(said.split(), [tessera.__version__,
                                            str(folder / "site" / "tessera" / "__init__.py")])
            self.assertTrue(list((folder / "site").glob(f"tessera-{tessera.__version__}*")))
