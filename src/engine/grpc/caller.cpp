#include "engine/grpc/caller.hpp"

#include "engine/grpc/rpc_status.hpp"

namespace tessera {
namespace {

constexpr size_t kMostKnownCertificates = 4096;

std::string only_value(const std::vector<grpc::string_ref>& values) {
  return values.size() == 1 ? std::string(values[0].data(), values[0].size()) : "";
}

// Of a caller that says nothing of it, or nonsense, an empty one.
CallingProcess process_of(const grpc::ServerContextBase& context) {
  constexpr size_t kLongest = 64;
  const auto& sent = context.client_metadata();
  if (sent.count(kProcessHeader) != 1) return {};
  const auto header = sent.find(kProcessHeader)->second;
  const std::string text(header.data(), header.size());
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash > kLongest || text.size() - slash - 1 > kLongest)
    return {};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

}  // namespace

Result<CertificateFacts> CallerCheck::facts_of(const std::string& pem) {
  const std::scoped_lock guard(mutex_);
  if (const auto at = known_.find(pem); at != known_.end()) return at->second;
  TESSERA_ASSIGN(auto facts, read_certificate(pem));
  if (known_.size() >= kMostKnownCertificates) known_.clear();
  known_.emplace(pem, facts);
  return facts;
}

grpc::Status CallerCheck::identify(const grpc::ServerContextBase& context, Caller& caller) {
  caller.peer = context.peer();
  caller.process = process_of(context);
  if (insecure_) {
    const auto& sent = context.client_metadata();
    if (sent.count(kInsecureNameHeader) != 1) return denied("the caller does not say who it is");
    const auto name = sent.find(kInsecureNameHeader)->second;
    caller.name.assign(name.data(), name.size());
    if (const auto fit = check_member_name(caller.name); !fit.ok()) return to_grpc(fit);
  } else {
    const auto pem = only_value(context.auth_context()->FindPropertyValues("x509_pem_cert"));
    const auto facts = facts_of(pem);
    if (!facts.ok()) return denied(message(facts.status()));
    caller.name = facts->name;
    caller.serial = facts->serial;
    const auto revoked = host_.revoked(facts->serial);
    if (!revoked.ok()) return to_grpc(fail(Error::kIo, "{}", message(revoked.status())));
    if (*revoked)
      return denied(fmt::format("the certificate of '{}' was revoked; ask who runs the federation",
                                caller.name));
  }
  const auto member = host_.member_of(caller.name);
  if (!member) return denied(fmt::format("'{}' is not a member of this federation", caller.name));
  caller.member = *member;
  host_.came(caller.member, caller.serial);
  return grpc::Status::OK;
}

}  // namespace tessera
