#include "io/script_file.hpp"

#include "io/script_archive_testing.hpp"
#include "io/script_operators.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::HandMadeScript;
using testing::Succeeds;

Status status_of(const HandMadeScript& script,
                 const std::map<std::string, std::string>& changed = {}) {
  return check_script_file(script.file(changed), "net.pt").status();
}

TEST(ScriptFile, HandsOnWhatItLookedAtAndNothingElse) {
  const HandMadeScript plain;
  const auto checked = check_script_file(
      plain.file({{"net/extra/notes.txt", "os.system"}, {"net/bytecode.pkl", "not a pickle"}}),
      "net.pt");
  ASSERT_THAT(checked, Succeeds());
  const auto members = read_zip(checked->archive, 1 << 20, "checked");
  ASSERT_THAT(members, Succeeds());
  auto expected = plain.members();
  for (const auto& [name, data] : *members) {
    EXPECT_EQ(text_of(data), expected[name]) << name;
    expected.erase(name);
  }
  EXPECT_TRUE(expected.empty());
  EXPECT_TRUE(checked->declared.contains("fc"));
  EXPECT_TRUE(checked->declared.contains("forward"));
}

TEST(ScriptFile, OperatorsOutsideOfTheListAreRefusedByName) {
  const std::map<std::string, std::string> named{
      {R"(torch.save(x, "/tmp/x"))", "calls torch.save"},
      {R"(_1 = torch.from_file("/etc/passwd", False, 9))", "calls torch.from_file"},
      {"_1 = torch.empty([9])", "calls torch.empty"},
      {"_1 = torch.autograd.save(x)", "calls torch.autograd.save"},
      {"ops.prim.Print(x)", "calls prim::Print"},
      {"_1 = ops.c10d.allreduce_(x)", "calls c10d::allreduce_"},
      {"_1 = ops.prim.rpc_sync(x)", "calls prim::rpc_sync"},
      {R"(ops.aten.save(x, "y"))", "calls aten::save"},
      {"print(x)", "calls print"},
      {R"(x.save("y"))", "calls .save"},
      {R"(_1 = getattr(x, "save"))", "calls getattr in a way"},
      {"_1 = torch", "uses torch as a value"},
      {"_1 = __torch__.torch.classes.dist_rpc.Agent(x)", "uses __torch__.torch.classes.dist_rpc"}};
  for (const auto& [line, words] : named)
    EXPECT_THAT(status_of({line}), FailsWith(Error::kInvalid, "net.pt: the network " + words))
        << line;
  EXPECT_THAT(status_of({"_1 = \"torch.save(x, \\\"y\\\")\""}), Succeeds()) << "a text is no code";
  EXPECT_THAT(status_of({R"(torch.warn("old"))"}), Succeeds()) << "PyTorch's own layers have it";
}

TEST(ScriptFile, NothingIsCalledWhileTorchReads) {
  const std::string setstate =
      "  def __setstate__(self: __torch__.Net,\n    state: int) -> None:\n    return None\n";
  EXPECT_THAT(status_of({.more = setstate}), FailsWith(Error::kInvalid, "a method __setstate__"));
  EXPECT_THAT(status_of({.more = "  k : Final[int] = torch.add(1, 2)\n"}),
              FailsWith(Error::kInvalid, "at line 6 of __torch__, where torch would run it"));
  EXPECT_THAT(
      status_of({.more = "  def f(self: __torch__.Net,\n    k: int=torch.add(1, 2)) -> int:\n"
                         "    return k\n"}),
      FailsWith(Error::kInvalid, "at line 7 of __torch__, where torch would run it"));
  EXPECT_THAT(status_of({.more = "  k : Final[Tuple[int, int]] = (1, -2)\n"}), Succeeds());
}

TEST(ScriptFile, PicklesNameNothingButTheNetwork) {
  namespace p = testing::pickled;
  const auto with = [](const std::string& body) {
    return status_of({}, {{"net/data.pkl", p::of(body)}});
  };
  EXPECT_THAT(with(p::global("posix", "system") + p::text("touch /tmp/x") + "\x85R"),
              FailsWith(Error::kInvalid, "names posix.system"));
  EXPECT_THAT(with(p::object("Other", {})), FailsWith(Error::kInvalid, "names __torch__.Other"));
  EXPECT_THAT(with(p::global("__torch__.torch.classes.caffe2", "X") + ")\x81}b"),
              FailsWith(Error::kInvalid, "names __torch__.torch.classes.caffe2.X"));
  EXPECT_THAT(with(p::global("__torch__", "Net") + ")\x81" + p::whole(1) + "b"),
              FailsWith(Error::kInvalid, "an instruction (0x62)"));
}

/// Torch asks neither of these, and would read what lies behind the numbers in memory.
TEST(ScriptFile, TensorsStayWithinTheirNumbers) {
  namespace p = testing::pickled;
  const auto with = [](const std::string& tensor) {
    return status_of({}, {{"net/data.pkl", p::of(tensor)}});
  };
  EXPECT_THAT(with(p::tensor("0", 18, {3, 6}, {6, 1})), Succeeds());
  EXPECT_THAT(with(p::tensor("0", 18, {17}, {1}, 1)), Succeeds());
  EXPECT_THAT(with(p::tensor("0", 18, {0, 100}, {1, 1})), Succeeds());
  EXPECT_THAT(with(p::tensor("0", 19, {19}, {1})),
              FailsWith(Error::kInvalid, "says that '0' holds 19 values, and it has 72 bytes"));
  for (const auto& tensor :
       {p::tensor("0", 18, {18}, {1}, 1), p::tensor("0", 18, {19}, {1}),
        p::tensor("0", 18, {3, 6}, {7, 1}), p::tensor("0", 18, {1}, {1}, 18),
        p::tensor("0", 18, {1}, {1}, -1), p::tensor("0", 18, {1 << 28, 1 << 28}, {0, 0})})
    EXPECT_THAT(with(tensor), FailsWith(Error::kInvalid, "reaches beyond its numbers"));
}

TEST(ScriptFile, IsBoundedBeforeMemoryIsTaken) {
  const auto file = HandMadeScript().file();
  EXPECT_THAT(check_script_file(file, "n", {.max_bytes = file.size() - 1}),
              FailsWith(Error::kInvalid, "n: has "));
  EXPECT_THAT(check_script_file(file, "n", {.max_members = 5}),
              FailsWith(Error::kInvalid, "has 6 members, more than the 5 allowed"));
  EXPECT_THAT(check_script_file(file, "n", {.max_code = 100}),
              FailsWith(Error::kInvalid, "of code in one module"));
  EXPECT_THAT(check_script_file(file, "n", {.max_pickle = 100}),
              FailsWith(Error::kInvalid, "its data.pkl has"));
  EXPECT_THAT(status_of({"_1 = " + std::string(65, '(') + "1" + std::string(65, ')')}),
              FailsWith(Error::kInvalid, "brackets are nested too deeply"));
}

TEST(ScriptFile, SaysWhatIsMissing) {
  EXPECT_THAT(check_script_file(testing::to_bytes("not a network"), "net.pt"),
              FailsWith(Error::kInvalid, "net.pt: is not a network in TorchScript (not a zip"));
  EXPECT_THAT(check_script_file(*write_zip({{"net/version", bytes_of("3")}}), "net.pt"),
              FailsWith(Error::kInvalid, "'data.pkl' is missing"));
}

TEST(ScriptOperators, AreThoseOfNetworks) {
  for (const char* known : {"aten::relu", "aten::zeros_like", "aten::__not__", "prim::dtype",
                            "aten::Bool", "aten::_weight_norm", "prim::unchecked_unwrap_optional"})
    EXPECT_TRUE(is_network_operator(known)) << known;
  for (const char* unknown : {"aten::save", "aten::from_file", "aten::empty", "aten::empty_like",
                              "aten::set_", "aten::manual_seed", "prim::Print", "prim::rpc_async",
                              "prim::PythonOp", "relu", "aten::", "c10d::send", "aten::relu "})
    EXPECT_FALSE(is_network_operator(unknown)) << unknown;
}

}  // namespace
}  // namespace tessera
