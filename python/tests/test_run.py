"""Runs of the real program on four tables of eight columns."""
import contextlib
import io
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import tessera
from support import CLASSES, FEATURES, SIZES, experiment, forward, logits_of, make_data, packed


def setUpModule():
    global WORK, DATA, FOLDER
    FOLDER = tempfile.TemporaryDirectory()
    WORK = pathlib.Path(FOLDER.name)
    DATA = make_data(WORK / "data")


def tearDownModule():
    FOLDER.cleanup()


class ARun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.screen = io.StringIO()
        with contextlib.redirect_stderr(cls.screen):
            cls.run_ = tessera.run(experiment(WORK / "data"), WORK / "local", seed=3,
                                   sets={"federation.eval_every": 1})

    def test_progress_was_shown(self):
        self.assertIn("round 2/2", self.screen.getvalue())

    def test_facts(self):
        run = self.run_
        self.assertTrue(run.finished)
        self.assertEqual((run.summary["method"], run.summary["seed"], run.summary["clients"]),
                         ("local", 3, len(SIZES)))
        self.assertEqual(run.headline, run.summary["headline"])
        self.assertEqual(len(run.class_names), CLASSES)
        self.assertIn('name = "local"', run.config_text)
        if sys.version_info >= (3, 11):
            self.assertEqual(run.config["train"]["epochs"], 3)
            self.assertEqual(run.config["seed"], 3)

    def test_clients_by_name(self):
        clients = self.run_.clients
        self.assertEqual(dict(zip(clients["name"].tolist(), clients["train"].tolist())), SIZES)
        self.assertEqual(set(clients["test"].tolist()), {50})
        self.assertFalse(clients["newcomer"].any())
        self.assertNotIn("id", clients)
        self.assertEqual(self.run_.names, clients["name"].tolist())

    def test_rounds_are_arrays(self):
        rounds = self.run_.rounds
        self.assertEqual(rounds["round"].tolist(), [1, 2])
        self.assertEqual(rounds["round"].dtype, np.int64)
        self.assertEqual(rounds["loss"].dtype, np.float64)
        self.assertGreater(rounds["loss"][0], rounds["loss"][1])
        self.assertEqual(rounds["bytes_up"].sum(), self.run_.summary["bytes_up"])

    def test_models_belong_to_the_clients_they_are_called_after(self):
        metrics = self.run_.client_metrics()
        self.assertEqual(metrics["client"].tolist(), self.run_.names)
        self.assertEqual(set(self.run_.models), set(SIZES))
        for client, correct, n in zip(metrics["client"], metrics["correct"], metrics["n"]):
            state = self.run_.models[client]
            self.assertEqual(state["fc1.weight"].shape, (100, FEATURES))
            data = DATA[client]
            right = forward(state, state.prepare(data["x_test"])).argmax(1) == data["y_test"]
            self.assertEqual((right.sum(), len(right)), (correct, n), client)
        # The test above says something only if models differ.
        state = self.run_.models["2"]
        counts = {c: (forward(state, state.prepare(d["x_test"])).argmax(1) == d["y_test"]).sum()
                  for c, d in DATA.items()}
        self.assertNotEqual(counts["2"], counts["10"])

    def test_metrics_over_clients_are_those_of_the_clients(self):
        evals = self.run_.evals()
        self.assertEqual(evals["round"].tolist(), [1, 2])
        for place, round in enumerate(evals["round"]):
            one = self.run_.client_metrics(round=int(round))
            np.testing.assert_allclose(one["accuracy"], one["correct"] / one["n"])
            self.assertAlmostEqual(one["accuracy"].mean(), evals["mean"][place], places=12)
            self.assertAlmostEqual(one["accuracy"].std(), evals["std"][place], places=12)
            self.assertAlmostEqual(one["loss"].mean(), evals["loss"][place], places=12)
        self.assertEqual(evals["mean"][-1], self.run_.summary["accuracy"]["mean"])

    def test_metadata_without_the_numbers(self):
        self.assertEqual(self.run_.models.metadata("north"), self.run_.models["north"].metadata)
        self.assertEqual(self.run_.models["north"].metadata["method"], "local")
        self.assertIn(10, self.run_.models)  # a name that is a number
        self.assertEqual(len(self.run_.models), 4)
        self.assertIsNone(self.run_.models.get("nobody"))

    def test_predict_is_the_forward_pass(self):
        x, state = DATA["10"]["x_test"], self.run_.models["10"]
        answer = tessera.predict(self.run_, "10", x)
        expected = forward(state, state.prepare(x))
        self.assertEqual((answer.client, len(answer.classes)), ("10", CLASSES))
        np.testing.assert_allclose(answer.probabilities, expected, atol=1e-5)
        np.testing.assert_array_equal(answer.labels, expected.argmax(1))
        self.assertEqual(answer.predicted.tolist(), [answer.classes[i] for i in answer.labels])
        with self.assertRaisesRegex(tessera.Error, "nobody"):
            tessera.predict(self.run_, "nobody", x)

    def test_scaling_is_by_the_training_rows_of_all(self):
        state = self.run_.models["10"]
        rows = np.concatenate([arrays["x_train"] for arrays in DATA.values()]).astype(float)
        expected = (DATA["10"]["x_test"] - rows.mean(0)) / rows.std(0)
        np.testing.assert_allclose(state.prepare(DATA["10"]["x_test"]), expected, atol=1e-5)

    def test_torch_takes_a_state_dict(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no torch for this Python")
        state = self.run_.models["1"]
        net = torch.nn.Sequential()
        net.add_module("fc1", torch.nn.Linear(FEATURES, 100))
        net.add_module("relu", torch.nn.ReLU())
        net.add_module("head", torch.nn.Linear(100, CLASSES))
        net.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        x = state.prepare(DATA["1"]["x_test"])
        shares = torch.softmax(net(torch.from_numpy(x)), 1).detach().numpy()
        np.testing.assert_allclose(shares, forward(state, x), atol=1e-6)

    def test_what_there_is_not_is_said(self):
        run = self.run_
        for ask, words in [(lambda: run.evals(view="global"), "clients/post/test"),
                           (lambda: run.evals(who="newcomers"), "newcomers"),
                           (lambda: run.client_metrics(part="val"), "post/test"),
                           (lambda: run.client_metrics(round=9), "evaluated were: 1, 2"),
                           (lambda: run.client_metrics(who="all"), "'newcomers'"),
                           (lambda: run.models["nobody"], "there are: 1"),
                           (lambda: run.table("nothing"), "there is no table 'nothing'")]:
            with self.assertRaises(tessera.Error) as caught:
                ask()
            self.assertIn(words, str(caught.exception))

    def test_any_table(self):
        labels = self.run_.table("labels")
        for client, arrays in DATA.items():
            mine = (labels["client"] == client) & (labels["part"] == "train")
            counts = dict(zip(labels["label"][mine].tolist(), labels["n"][mine].tolist()))
            self.assertEqual([counts.get(i, 0) for i in range(CLASSES)],
                             np.bincount(arrays["y_train"], minlength=CLASSES).tolist())
        self.assertIn("problems", self.run_.tables)

    def test_the_directory_is_not_overwritten_unasked(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.run(experiment(WORK / "data"), WORK / "local", seed=3, quiet=True)
        self.assertEqual(caught.exception.code, 2)
        self.assertIn(str(WORK / "local"), str(caught.exception))

    def test_wrong_keys_are_named(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.run({**experiment(WORK / "data"), "train": {"lrr": 1}}, WORK / "no", quiet=True)
        self.assertEqual(caught.exception.code, 2)
        self.assertIn("unknown key 'train.lrr'", str(caught.exception))


class OtherRuns(unittest.TestCase):
    def test_exhibits(self):
        run = tessera.run(experiment(WORK / "data", "fedacs"), WORK / "fedacs", quiet=True)
        similarity = run.exhibits["similarity"][-1]
        self.assertEqual((similarity.round, similarity.kind), (2, "matrix"))
        self.assertEqual(similarity.rows, run.names)
        self.assertEqual(similarity.columns, run.names)
        np.testing.assert_allclose(np.diag(similarity.value), 1)
        np.testing.assert_allclose(similarity.value, similarity.value.T)
        threshold = run.exhibits["threshold"][-1]
        self.assertEqual(threshold.value.shape, (len(threshold.rows), len(threshold.columns)))

    def test_newcomers(self):
        run = tessera.run(experiment(WORK / "data", "fedavg"), WORK / "newcomers", quiet=True,
                          sets={"data.newcomers": 1})
        self.assertEqual(run.clients["newcomer"].sum(), 1)
        new = run.client_metrics(who="newcomers")
        self.assertEqual(new["client"].tolist(),
                         run.clients["name"][run.clients["newcomer"]].tolist())
        self.assertAlmostEqual(new["accuracy"].mean(), run.evals("newcomers")["mean"][-1])
        self.assertEqual(len(run.client_metrics()["client"]), 3)
        for view in "pre", "post":  # FedAvg's global model, and the same after a step at home
            self.assertAlmostEqual(run.client_metrics(view)["accuracy"].mean(),
                                   run.summary["accuracy_" + view]["mean"])
        self.assertNotEqual(run.client_metrics("pre")["loss"].tolist(),
                            run.client_metrics("post")["loss"].tolist())

    def test_probabilities_are_those_of_the_loss(self):
        run = tessera.run(experiment(WORK / "data"), WORK / "multilabel", quiet=True,
                          sets={"train.loss": "multilabel"})
        x, state = DATA["2"]["x_test"], run.models["2"]
        self.assertEqual(state.metadata["loss"], "multilabel")
        expected = 1 / (1 + np.exp(-logits_of(state, state.prepare(x))))
        np.testing.assert_allclose(tessera.predict(run, "2", x).probabilities, expected, atol=1e-5)

    def test_a_path_and_the_default_directory(self):
        file = WORK / "file.toml"
        file.write_text('name = "here"\nrounds = 1\nseed = 2\n[data]\nset = "npz"\n'
                        'partition = "natural"\n[model]\nname = "mlp100"\n'
                        '[method]\nname = "local"\n')
        before = os.getcwd()
        os.chdir(WORK)
        try:
            run = tessera.run(file, data_dir="data", quiet=True)
        finally:
            os.chdir(before)
        self.assertEqual(run.path.resolve(), (WORK / "runs/here/local-s2").resolve())
        self.assertEqual(run.summary["rounds"], 1)  # also from elsewhere

    def test_a_run_that_diverges_can_still_be_read(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.run(experiment(WORK / "data"), WORK / "diverged", quiet=True,
                        sets={"train.lr": 1e30})
        error = caught.exception
        self.assertEqual(error.code, 1)
        self.assertIsInstance(error.result, tessera.Run)
        self.assertIn(error.result.summary["failed"], str(error))

    def test_an_unfinished_run_is_watched_and_resumed(self):
        out = WORK / "stopped"
        config = experiment(WORK / "data", "fedavg", rounds=300)
        package = pathlib.Path(tessera.__file__).parents[1]
        script = (f"import sys; sys.path[:0] = {[str(package), os.path.dirname(__file__)]!r}\n"
                  "import tessera, support\n"
                  f"config = support.experiment({str(WORK / 'data')!r}, 'fedavg', rounds=300)\n"
                  f"try: tessera.run(config, {str(out)!r}, quiet=True, threads=1)\n"
                  "except KeyboardInterrupt: sys.exit(77)\n")
        process = subprocess.Popen([sys.executable, "-B", "-c", script])
        try:
            self.wait_for_rounds(out, process)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 77)
        finally:
            process.kill()
            process.wait()
        stopped = tessera.load(out)
        done = len(stopped.rounds["round"])
        self.assertTrue(0 < done < 300)
        self.assertFalse(stopped.finished)
        with self.assertRaisesRegex(tessera.Error, "resume=True"):
            stopped.summary
        run = tessera.run(config, out, resume=True, quiet=True)
        self.assertEqual(run.rounds["round"].tolist(), list(range(1, 301)))
        self.assertEqual(run.summary["rounds"], 300)

    def wait_for_rounds(self, out, process):
        limit = time.time() + 60
        while time.time() < limit and process.poll() is None:
            with contextlib.suppress(tessera.Error):
                if len(tessera.load(out).rounds["round"]) >= 2:
                    return
            time.sleep(0.01)
        self.fail(f"no rounds appeared; exit code {process.poll()}")


class AComparison(unittest.TestCase):
    def test_table_and_runs(self):
        comparison = tessera.compare(experiment(WORK / "data"), ["local", "fedavg"], [3, 5],
                                     WORK / "compared", quiet=True)
        self.assertEqual([row["method"] for row in comparison.table][:2], ["local", "fedavg"])
        self.assertEqual(sorted(comparison.runs),
                         ["fedavg-s3", "fedavg-s5", "local-s3", "local-s5"])
        row = comparison.row("local")
        means = [comparison.runs[name].summary["accuracy"]["mean"] for name in row["runs"]]
        self.assertAlmostEqual(row["accuracy_mean"], np.mean(means))
        self.assertAlmostEqual(row["accuracy_std"], np.std(means, ddof=1))
        again = tessera.load_comparison(WORK / "compared")
        self.assertEqual(again.table, comparison.table)
        with self.assertRaisesRegex(tessera.Error, "fedavg-s3"):
            comparison.runs["nothing"]
        with self.assertRaisesRegex(tessera.Error, "load_comparison"):
            tessera.load(WORK / "compared")

    def test_a_list_of_one_seed_is_that_seed(self):
        comparison = tessera.compare(experiment(WORK / "data"), "local", [7], WORK / "one",
                                     quiet=True)
        self.assertEqual(list(comparison.runs), ["local-s7"])

    def test_a_method_that_fails_leaves_the_table(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.compare(experiment(WORK / "data"), ["local", "fedavg:train.lr=1e30"],
                            out=WORK / "half", quiet=True)
        self.assertEqual(caught.exception.code, 1)
        comparison = caught.exception.result
        self.assertGreater(comparison.row("local")["accuracy_mean"], 0.3)
        failed = [row for row in comparison.table if "failed" in row]
        self.assertTrue(failed and all("1e30" in row["method"] for row in failed))

    def test_tables_that_are_damaged(self):
        folder = WORK / "damaged"
        folder.mkdir()
        with self.assertRaisesRegex(tessera.Error, "no table.json"):
            tessera.load_comparison(folder)
        for text, words in [("{}", "array"), ("[", "JSON"), ("[3]", "'runs'"),
                            ('[{"method": "a", "runs": ["../x"]}]', "beside it"),
                            ('[{"method": "a", "runs": [".."]}]', "beside it")]:
            (folder / "table.json").write_text(text)
            with self.assertRaises(tessera.Error, msg=text) as caught:
                tessera.load_comparison(folder)
            self.assertIn(words, str(caught.exception))


class Hostile(unittest.TestCase):
    """Directories that are no runs: one clear Error each."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def history(self, *statements):
        """A history with a client "a" of id 0, changed by the statements."""
        path = self.folder / "history.sqlite"
        path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(
                "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);"
                "INSERT INTO meta VALUES ('format', '3'), ('method', 'local'),"
                " ('headline', 'post');"
                "CREATE TABLE clients (id INTEGER, name TEXT, newcomer INTEGER, train INTEGER);"
                "INSERT INTO clients VALUES (0, 'a', 0, NULL);"
                "CREATE TABLE exhibits (round INTEGER, name TEXT, kind TEXT, title TEXT, rows TEXT,"
                " columns TEXT, shape TEXT, value BLOB);" + ";".join(statements))

    def refuse(self, ask, words):
        with self.assertRaises(tessera.Error) as caught:
            ask()
        self.assertIn(words, str(caught.exception))
        self.assertIn(str(self.folder), str(caught.exception))

    def test_no_history(self):
        self.refuse(lambda: tessera.load(self.folder / "nowhere"), "no such directory")
        self.refuse(lambda: tessera.load(self.folder), "there is no history.sqlite")
        file = self.folder / "history.sqlite"
        for data in b"", b"no database at all, but long enough to look at" * 50:
            file.write_bytes(data)
            self.refuse(lambda: tessera.load(self.folder), "cannot be read as a history")
        file.unlink()
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.executescript("CREATE TABLE meta (key TEXT, value TEXT)")
        self.refuse(lambda: tessera.load(self.folder), "not a history of Tessera")

    def test_a_history_that_was_cut_off(self):
        self.history()
        file = self.folder / "history.sqlite"
        file.write_bytes(file.read_bytes()[:4096])
        self.refuse(lambda: tessera.load(self.folder).clients, "cannot be read as a history")

    def test_missing_columns_and_values(self):
        self.history()
        run = tessera.load(self.folder)
        self.assertTrue(np.isnan(run.clients["train"]).all())  # NULL is not 0
        self.refuse(lambda: run.rounds, "no table 'rounds'")
        self.refuse(lambda: run.evals(), "no table 'evals'")
        self.refuse(lambda: run.config, "config.toml")
        self.history("DROP TABLE clients", "CREATE TABLE clients (id INTEGER, name TEXT)")
        self.refuse(lambda: tessera.load(self.folder).clients, "no column 'newcomer'")
        self.history("UPDATE clients SET newcomer = 'perhaps'")
        self.refuse(lambda: tessera.load(self.folder).clients, "something else than expected")
        self.history("UPDATE meta SET value = CAST(x'ff' AS TEXT)")
        self.refuse(lambda: tessera.load(self.folder), "cannot be read as a history")

    def test_damaged_exhibits(self):
        for shape, value, words in [("[2]", "x'00'", "1 bytes do not fill"),
                                    ("[-1]", "x''", "damaged"), ("[", "x''", "cannot be read"),
                                    ("3", "x''", "not a list"),
                                    ("[4611686018427387904, 4]", "x''", "do not fill"),
                                    ("[1]", "NULL", "damaged")]:
            self.history("INSERT INTO exhibits VALUES (1, 'e', 'matrix', 't', '[]', '[]', "
                         f"'{shape}', {value})")
            self.refuse(lambda: tessera.load(self.folder).exhibits, words)

    def test_damaged_summary(self):
        self.history()
        for text in "[]", "{", "":
            (self.folder / "summary.json").write_text(text)
            self.refuse(lambda: tessera.load(self.folder).summary, "summary.json")

    def test_models(self):
        self.history("INSERT INTO clients VALUES (1, 'b/c', 0, NULL)")
        models = self.folder / "models"
        self.assertEqual(len(tessera.load(self.folder).models), 0)
        self.refuse(lambda: tessera.load(self.folder).models["a"], "there are none")
        models.mkdir()
        tensor = {"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}

        def write(name, byte, **metadata):
            (models / name).write_bytes(packed({"__metadata__": metadata, **tensor}, bytes([byte])))

        write("client-1.safetensors", 1, client="1")  # before 0.2.0: by id
        write("client-a.safetensors", 2, client_name="a", client="7")
        write("client-x%2Fy.safetensors", 3)  # by its own name
        run = tessera.load(self.folder)
        self.assertEqual(list(run.models)[:2], ["a", "b/c"])  # in the order of the clients
        self.assertEqual({name: state["w"].item() for name, state in run.models.items()},
                         {"b/c": 1, "a": 2, "x/y": 3})
        self.assertNotIn("global", run.models)
        write("global.safetensors", 5, client_name="global")  # of the federation, nobody's own
        self.assertEqual(run.models["global"]["w"].item(), 5)
        self.assertEqual(len(run.models), 3)
        write("client-again.safetensors", 4, client_name="a")
        self.refuse(lambda: tessera.load(self.folder).models["a"], "client 'a'")
        (models / "client-again.safetensors").write_bytes(b"\xff" * 9)
        self.refuse(lambda: tessera.load(self.folder).models["a"], "client-again.safetensors")
