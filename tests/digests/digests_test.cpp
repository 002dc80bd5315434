// Every method's numbers, as one digest a run: a change that means to change none is shown to.
//
// The table digests.tsv holds the `history_digest` of each method on rows and on pictures, and
// behind guards where they go. Bits depend on the processor's kernels, so ctest asks for the plain
// ones (CMakeLists.txt), and a probe of processor and arithmetic says whether the table's machine
// computed as this one does. Where it did not, nothing can be compared and the test is skipped:
// `TESSERA_WRITE_DIGESTS=FILE` writes the table of a program, before a change and after it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/blas.hpp"
#include "base/text.hpp"
#include "io/sha256.hpp"
#include "method/any_method.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

using testing::Succeeds;
using testing::TempDir;
using Table = std::map<std::string, std::string>;  // "method data guard" → digest, or "refused"

/// Images in which a bright field stands for the class; everybody's classes lean their own way.
void write_pictures(const std::string& dir, int64_t clients) {
  Rng rng(22);
  constexpr int64_t kSide = 28;
  for (int64_t client = 0; client < clients; ++client) {
    std::map<std::string, Npy> arrays;
    for (const auto& [part, n] : {std::pair{"train", 8}, {"val", 4}, {"test", 4}}) {
      std::vector<float> x;
      std::vector<int64_t> y;
      for (int i = 0; i < n; ++i) {
        y.push_back(i < 3 ? i : static_cast<int64_t>(rng.below(testing::kClasses)));
        const auto bright = (y.back() * 9 + client * 3) % (kSide - 6);
        for (int64_t row = 0; row < kSide; ++row)
          for (int64_t column = 0; column < kSide; ++column) {
            const bool lit = row >= bright && row < bright + 6 && column > 6 && column < 20;
            x.push_back(static_cast<float>((lit ? 0.8 : 0.1) + 0.1 * rng.uniform()));
          }
      }
      arrays[std::string("x_") + part] = testing::npy(DType::kF32, {n, 1, kSide, kSide}, x);
      arrays[std::string("y_") + part] = testing::npy(DType::kI64, {n}, y);
    }
    ASSERT_THAT(write_npz(fmt::format("{}/client-{}.npz", dir, client), arrays), Succeeds());
  }
}

class Digests : public ::testing::Test {
 protected:
  struct Case {
    std::string method, data, guard;
  };

  static void SetUpTestSuite() {
    rows_ = new TempDir, pictures_ = new TempDir;
    testing::write_federation(rows_->path(), 5);
    write_pictures(pictures_->path(), 4);
  }
  static void TearDownTestSuite() { delete rows_, delete pictures_; }

  std::string text(const Case& c, const std::string& model) const {
    const auto guard = c.guard == "none"   ? ""
                       : c.guard == "dp"   ? "[[guard]]\nname = \"dp\"\nsigma = 0.5\n"
                       : c.guard == "topk" ? "[[guard]]\nname = \"compress\"\nto = \"topk\"\n"
                       : c.guard == "int8" ? "[[guard]]\nname = \"compress\"\nto = \"int8\"\n"
                       : c.guard == "vote" ? "[[guard]]\nname = \"vote\"\nparts = 2\n"
                                           : "[[guard]]\nname = \"secure-aggregation\"\n";
    const bool rows = c.data == "rows";
    return fmt::format(
        "name = \"digest\"\nseed = 3\nrounds = {}\n"
        "[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"{}\"\nnewcomers = {}\n"
        "[model]\nname = \"{}\"\n"
        "[train]\nbatch = 8\nlr = 0.1\nmomentum = {}\n"
        "[federation]\neval_every = 3\nparticipation = {}\n"
        "[run]\nkernels = \"portable\"\n"
        "[method]\nname = \"{}\"\n{}{}",
        rows ? 6 : 3, rows ? rows_->path() : pictures_->path(),
        rows && c.guard == "none" && c.method != "lgfedavg" ? 1 : 0, model,
        c.method == "scaffold" ? 0.0 : 0.5, rows && c.guard == "none" ? 0.75 : 1.0, c.method,
        few(c.method), guard);
  }
  /// Options without which a run of a few seconds would be none.
  static std::string few(const std::string& method) {
    if (method == "fedham" || method == "aml1" || method == "aml2") return "p = 2\n";
    if (method == "fedmetaper-maml" || method == "fedmetaper-metasgd") return "head_bank = true\n";
    if (method == "lgfedavg") return "warmup = 0.34\n";
    return "";
  }

  /// In the first network that the method takes.
  std::string digest(const Case& c) {
    for (const auto* model : {"mlp100", "lenet", "vit-s28", "lenet16-bn"}) {
      if ((c.data == "rows") != (model == std::string("mlp100"))) continue;
      const auto made = parse_experiment(text(c, model), "digest.toml", {});
      if (!made.ok()) continue;
      const auto out = fmt::format("{}/{}", dir_.path(), ++number_);
      const auto summary = run_experiment(*made, {.out = out});
      if (summary.ok()) return summary->at("history_digest").get<std::string>().substr(0, 16);
    }
    return "refused";
  }

  Table computed() {
    Table out;
    for (const auto& info : methods()) {
      for (const auto* data : {"rows", "pictures"})
        out[info.name + " " + data + " none"] = digest({info.name, data, "none"});
      const auto* data = out[info.name + " rows none"] == "refused" ? "pictures" : "rows";
      for (const auto* guard : {"dp", "topk", "int8", "secure-aggregation", "vote"})
        out[fmt::format("{} {} {}", info.name, data, guard)] = digest({info.name, data, guard});
    }
    return out;
  }

  inline static TempDir *rows_ = nullptr, *pictures_ = nullptr;
  TempDir dir_;
  int number_ = 0;
};

/// Which processor it is, and what is left of it in the arithmetic: products, sums and functions.
std::string probe() {
  auto x = at::empty({64, 96}), y = at::empty({96, 48});
  Rng rng(5);
  for (auto* t : {&x, &y})
    for (int64_t i = 0; i < t->numel(); ++i)
      t->data_ptr<float>()[i] = static_cast<float>(rng.normal());
  const auto z = x.mm(y);
  const auto all = at::cat({z.flatten(), z.softmax(1).flatten(), z.tanh().flatten(), z.exp().sum(0),
                            z.abs().log().flatten(), z.sigmoid().flatten(),
                            at::layer_norm(z, {48}).flatten(), z.norm().view({1}), z.var(0)});
  double sum = 0;
  for (int i = 1; i < 500; ++i)
    sum += std::exp(-0.01 * i) * std::log(i) + std::pow(i, 0.37) + std::sin(i) +
           static_cast<double>(std::exp(-0.013F * static_cast<float>(i)));
  Digest digest;
  digest.add(std::string_view(reinterpret_cast<const char*>(all.data_ptr<float>()),
                              static_cast<size_t>(all.numel()) * sizeof(float)));
  digest.add(fmt::format("{:a} {} {}", sum, this_processor().name, blas_name()));
  return digest.hex().substr(0, 16);
}

/// Lines "key<tab>value"; empty if there is no such file.
Table read(const std::string& path) {
  Table out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (const auto tab = line.find('\t'); tab != std::string::npos)
      out[line.substr(0, tab)] = line.substr(tab + 1);
  return out;
}

TEST_F(Digests, AreThoseOfTheTable) {
  if (const char* path = std::getenv("TESSERA_WRITE_DIGESTS")) {
    std::ofstream file(path);
    file << "probe\t" << probe() << "\n";
    for (const auto& [key, digest] : computed()) file << key << "\t" << digest << "\n";
    GTEST_SKIP() << "wrote " << path;
  }
  auto table = read(TESSERA_DIGESTS);
  ASSERT_FALSE(table.empty());
  if (table.extract("probe").mapped() != probe())
    GTEST_SKIP() << "this machine computes other bits than the one that the table is of";
  for (const auto& [key, digest] : computed()) {
    EXPECT_EQ(table[key], digest) << key;
    table.erase(key);
  }
  for (const auto& [key, digest] : table) ADD_FAILURE() << "the table has '" << key << "' beside";
}

}  // namespace
}  // namespace tessera
