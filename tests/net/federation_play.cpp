#include "federation_play.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/key.hpp"
#include "io/npy.hpp"
#include "io/sqlite.hpp"

namespace tessera::testing {
namespace {

// A port that was free a moment ago; the server must come back to it after a kill.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

void FederationPlay::SetUp() {
  Playground::SetUp();
  address_ = "127.0.0.1:" + std::to_string(free_port());
}

void FederationPlay::federation(const std::string& method, int rounds, const std::string& serve,
                                const std::string& newcomers) {
  std::string members;
  for (const auto& name : names_)
    if (newcomers.find(name) == std::string::npos) members += (members.empty() ? "" : ",") + name;
  write("e.toml", "name = \"toy\"\nrounds = " + std::to_string(rounds) +
                      "\n[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"" +
                      path("data") + "\"\nclass_names = \"x,y,z\"\n[model]\nname = \"" + model_ +
                      "\"\n[train]\nlr = 0.1\n"
                      "batch = 8\n[federation]\neval_every = 3\n[serve]\nmembers = \"" +
                      members + "\"\nnewcomers = \"" + newcomers + "\"\nhold = " + hold_ + "\n" +
                      serve + "[method]\nname = \"" + method + "\"\n" + method_options_);
}

void FederationPlay::pictures() {
  constexpr int64_t kPixels = 28 * 28;
  for (size_t client = 0; client < names_.size(); ++client) {
    Rng rng(derive(12, static_cast<int64_t>(client)));
    std::map<std::string, Npy> arrays;
    for (const auto& [part, n] : {std::pair{"train", int64_t{12}}, {"val", 4}, {"test", 6}}) {
      std::vector<float> x;
      std::vector<int64_t> y;
      for (int64_t i = 0; i < n; ++i) {
        y.push_back(i % 3);
        for (int64_t k = 0; k < kPixels; ++k)  // a class is a third of the picture that is bright
          x.push_back(static_cast<float>((3 * k / kPixels == y.back()) + 0.3 * rng.normal()));
      }
      Npy pixels{DType::kF32, {n, 1, 28, 28}, Bytes(x.size() * sizeof(float))};
      Npy labels{DType::kI64, {n}, Bytes(y.size() * sizeof(int64_t))};
      std::memcpy(pixels.data.data(), x.data(), pixels.data.size());
      std::memcpy(labels.data.data(), y.data(), labels.data.size());
      arrays[std::string("x_") + part] = std::move(pixels);
      arrays[std::string("y_") + part] = std::move(labels);
    }
    ASSERT_TRUE(write_npz(path("data/client-" + names_[client] + ".npz"), arrays).ok());
  }
}

// Once for all tests: six programs start for it. The directory goes with the process.
void FederationPlay::make_identities() {
  static const std::string shared = [] {
    std::string name = "/tmp/tessera ids XXXXXX";
    return std::string(mkdtemp(name.data()) ? name : "");
  }();
  static const bool made = [this] {
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(shared, ignored);
    });
    const auto issue = [&](const std::string& name, const std::vector<std::string>& more) {
      std::vector<std::string> words{
          "pki", "issue", name, "--ca", shared + "/ca", "--identity", shared + "/id-" + name};
      words.insert(words.end(), more.begin(), more.end());
      return tessera(words).code == 0;
    };
    bool fine = tessera({"pki", "init", shared + "/ca"}).code == 0;
    fine = fine && issue("server", {"--server", "127.0.0.1,localhost"});
    for (const auto& name : names_) fine = fine && issue(name, {});
    return fine;
  }();
  ASSERT_TRUE(made);
  identities_ = shared;
}

std::vector<std::string> FederationPlay::serve_words(const std::vector<std::string>& more) const {
  std::vector<std::string> words{
      "serve",     path("e.toml"), "--listen",   address_,
      "--state",   path("state"),  "--identity", identities_ + "/id-server",
      "--log-json"};
  words.insert(words.begin(), plugin_.begin(), plugin_.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> FederationPlay::join_words(const std::string& name,
                                                    const std::vector<std::string>& more) const {
  std::vector<std::string> words{"join",
                                 "--server",
                                 address_,
                                 "--identity",
                                 identities_ + "/id-" + name,
                                 "--data",
                                 path("data/client-" + name + ".npz"),
                                 "--state",
                                 path("state-" + name),
                                 "--log-json"};
  words.insert(words.begin(), plugin_.begin(), plugin_.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void FederationPlay::start_server(const std::vector<std::string>& more) {
  server_ = std::make_unique<Process>(serve_words(more), Process::Options{});
}

void FederationPlay::start_client(const std::string& name) {
  clients_[name] = std::make_unique<Process>(join_words(name), Process::Options{});
}

void FederationPlay::start_everybody() {
  start_server();
  for (const auto& name : names_) start_client(name);
}

void FederationPlay::start_and_enroll(const std::string& name) {
  start_client(name);
  ASSERT_TRUE(waits_for(*server_, "enrolled", {{"client", name}})) << server_->err();
}

bool FederationPlay::logged(const std::string& log, const std::string& event,
                            const std::map<std::string, nlohmann::json>& fields) {
  std::istringstream in(log);
  for (std::string text; std::getline(in, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || line.value("event", "") != event) continue;
    if (std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
          return line.contains(field.first) && line[field.first] == field.second;
        }))
      return true;
  }
  return false;
}

bool FederationPlay::waits_for(Process& program, const std::string& event,
                               const std::map<std::string, nlohmann::json>& fields) {
  return program.wait_until([&] { return logged(program.err(), event, fields); });
}

void FederationPlay::let_pass(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  server_->wait_until([&] { return std::chrono::steady_clock::now() >= until; });
}

Finished FederationPlay::wait_for_end(std::chrono::seconds limit) {
  auto out = server_->wait(limit);
  for (auto& [name, client] : clients_) {
    const auto ended = client->wait(std::chrono::seconds(20));
    EXPECT_EQ(ended.code, 0) << name << ": " << ended.err;
  }
  return out;
}

std::string FederationPlay::rounds_digest(const std::string& out) const {
  const auto summary = json(out + "/summary.json");
  if (!summary.is_object() || !summary.contains("rounds_digest")) return "no summary in " + out;
  return summary["rounds_digest"].get<std::string>();
}

std::string FederationPlay::rows(const std::string& out, const std::string& sql) const {
  auto database = Database::open(path(out + "/history.sqlite"), Database::Mode::kReadOnly);
  if (!database.ok()) return message(database.status());
  auto query = database->prepare(sql);
  if (!query.ok()) return message(query.status());
  std::string text;
  for (auto more = query->step(); more.ok() && *more; more = query->step()) {
    for (int i = 0; i < query->columns(); ++i) text += query->text(i) + " ";
    text += "\n";
  }
  return text;
}

std::string FederationPlay::simulated_digest() {
  auto words = plugin_;
  words.push_back("--force");
  const auto simulated = run("simulated", words);
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  return rounds_digest("simulated");
}

}  // namespace tessera::testing
