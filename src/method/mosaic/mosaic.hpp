// Mosaic (docs/methods.md §12.2; ours): one FedAvg federation, five experts that each client makes
// of it (experts.hpp), and a pool of them (pool.hpp) whose few weights the federation learns from
// held-out samples. The weights are common, the experts are personal.
//
// All messages are sums: what is fitted travels beside the model, divided by the client's weight,
// so that mean times weight is the sum again.
//
// Where only a part of the clients takes part in a round (`balanced`) g learns as the generic head
// of FedRoD does (balanced softmax): a client adds the logarithms of its class shares to the
// biases, trains, and takes them off again. What is averaged then takes all classes for equally
// frequent, whoever has which.
//
// Deviations from the plan in §12.2: what is fitted "once" is spread over the rounds after 3T/4,
// one exchange a round (schedule.hpp), and begins earlier where these are too few. A client freezes
// its experts' readings of its held-out rows before it first trains on them, so that all exchanges
// judge the same experts while training goes on. The last round measures moments and leaves g as it
// is: they then belong to the final model. Of more than 128 features lda sees 128 common random
// directions, whose sums can be added (`cov`).
#pragma once

#include "method/method.hpp"
#include "method/mosaic/experts.hpp"
#include "method/mosaic/held_rows.hpp"
#include "method/mosaic/last_value.hpp"
#include "method/mosaic/pool.hpp"
#include "method/mosaic/schedule.hpp"

namespace tessera {

/// A plain value; const functions are thread-safe.
struct Mosaic {
  struct Server {
    Weights g;
    int64_t done = 0;  // exchanges of the fit that came back; from 1 on the moments are known
    FeatureMoments moments;
    PoolFit fit;
    Tensor temperature;  // float64 [experts]
    static void fields(auto& m, auto&& f) {
      f("g", m.g), f("done", m.done), f("moments", m.moments), f("fit", m.fit),
          f("temperature", m.temperature);
    }
  };
  /// What a client's experts said of its held-out rows before it trained on them; numbers that are
  /// not finite stand for experts it had not.
  struct Frozen {
    Tensor logits;                                 // float32 [3, rows, classes]: g, ft, loc
    Tensor features;                               // float32 [rows, p]
    ClassSums own;                                 // of the rows it had trained on
    std::optional<Tensor> bins = std::nullopt;     // int64 [rows]: of the last values, for `last`
    std::optional<Tensor> follows = std::nullopt;  // float64 [bins, classes]: as own
    static void fields(auto& m, auto&& f) {
      f("logits", m.logits), f("features", m.features), f("own", m.own), f("bins", m.bins),
          f("follows", m.follows);
    }
  };
  struct Client {
    std::optional<Weights> loc;    // none: never took part
    std::optional<Frozen> frozen;  // only during the fit
    std::optional<Tensor> beta;    // only with weights = "own"
    static void fields(auto& m, auto&& f) {
      f("loc", m.loc), f("frozen", m.frozen), f("beta", m.beta);
    }
  };
  /// Beside g only what the exchange, or an evaluation, needs. In training, beta asks for what a
  /// Newton step needs.
  struct Down {
    Weights g;
    int64_t exchange = 0;  // Exchange
    std::optional<FeatureMoments> moments;
    std::optional<Tensor> beta, temperature;
    static void fields(auto& m, auto&& f) {
      f("g", m.g), f("exchange", m.exchange), f("moments", m.moments), f("beta", m.beta),
          f("temperature", m.temperature);
    }
  };
  /// What an exchange asks for, float32 and divided by the client's weight; of most rounds nothing.
  struct Sums {
    std::optional<Statistic<Tensor>> moments;            // as moment_sums() makes them
    std::optional<Statistic<Tensor>> follows;            // classes after bins of the last value
    std::optional<Statistic<Tensor>> losses;             // of each expert at each temperature
    std::optional<Statistic<Tensor>> gradient, hessian;  // of the pool; the upper triangle
    static void fields(auto& m, auto&& f) {
      f("moments", m.moments), f("follows", m.follows), f("losses", m.losses),
          f("gradient", m.gradient), f("hessian", m.hessian);
    }
  };
  struct Parts {
    std::optional<Trained<Weights, &Down::g>> model;  // none in the closing round
    Sums sums;
    static void fields(auto& m, auto&& f) { f("model", m.model), f("sums", m.sums); }
  };
  using Up = Mean<Parts>;

  const char* called = "mosaic";  // in messages; no option
  TrainOptions train;
  std::string experts = "g,pri,ft,loc,lda", cov = "auto", weights = "common", balanced = "partial";
  bool restart = false;
  double fit_at = 0.75, hold = 0.2, k = 20;
  int64_t newton = 10, ft_times = 5, most_held = 0;
  static void options(auto& m, auto&& f) {
    f(names_of("experts", "who is in the pool: some of g, pri, ft, loc, lda, last"), m.experts);
    f(between("fit_at", 0.05, 0.95, "share of the rounds after which the pool is fitted"),
      m.fit_at);
    f(between("hold", 0.01, 0.9, "share of a client's training rows held out until then"), m.hold);
    f(at_least("most_held", 0, "rows of a client that are held out at most; 0: any number"),
      m.most_held);
    f(between("newton", 0, 1000, "Newton steps for the weights, one a round, at most"), m.newton);
    f(between("ft_times", 1, 1000, "training of the expert ft: times train.epochs"), m.ft_times);
    f(above("k", 0, "samples by which lda's class means are drawn to the federation's"), m.k);
    f(one_of(
          "cov", {"auto", "full", "diag"},
          "covariance of lda's features; auto: full, of 128 random directions if there are more"),
      m.cov);
    f(one_of("weights", {"common", "own"},
             "whose weights the pool has: the federation's, or each client's from its own held-out "
             "rows"),
      m.weights);
    f(one_of("balanced", {"never", "partial", "always"},
             "when the global model learns beside each client's class frequencies, not with them, "
             "so that it takes all classes for equally frequent; partial: where not everybody "
             "takes part in every round"),
      m.balanced);
    f(any("restart",
          "after the rows are no longer held out, train all models again from the start: two "
          "federations, the first for the weights"),
      m.restart);
  }

  Server init_server(const Setup& setup) const;
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const;
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why why, const Setup& setup) const;
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const;
  Weights global(const Server& server, const Setup&) const { return server.g; }
  /// kPre: the pool of what needs no training; kPost: of all. Experts that the client has not (loc
  /// of a newcomer) are left out, the weights of the others scaled. Has no single weights.
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const;
  /// Weights and temperatures, and every expert's accuracy on each client's validation rows.
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated& evaluated,
                                const Setup& setup) const;
  Status check(const Setup& setup) const;
  Status check(const Client& me, const Setup& setup) const;

  ExpertNames names() const;
  MomentShape shape(const Model& model) const;
  /// How many counts `last` needs: classes after bins of the last value; 0 without it.
  int64_t follows(const Model& model) const;
  FeatureMap features(const Setup& setup) const;
  /// Which rows of a client are held out until the fit.
  HeldRows rows_of(const Local& local) const;
  MosaicSchedule schedule(const Setup& setup) const { return {setup.rounds, fit_at, newton}; }

 private:
  /// What this round's exchange sends: zeros of that form.
  Sums blank_sums(const Server& server, const Setup& setup) const;
  /// The experts on the held-out rows: [experts, rows, classes].
  Tensor held_logits(const FeatureMoments& moments, const Frozen& frozen, const Setup& setup) const;
  /// A client's own, each over `weight`.
  Sums sums_of(const Down& down, const std::optional<Frozen>& frozen, const HeldRows& rows,
               const Local& local) const;
  Frozen freeze(const Client& me, const Weights& g, const HeldRows& rows, const Local& local) const;
  bool balances(const Setup& setup) const;
  /// If it balances, g with (sign 1) or without (−1) the class frequencies of these data.
  Weights for_client(const Weights& g, const ClientData& data, const Setup& setup, int sign) const;
  /// g after more training on these data.
  Weights tuned(const Weights& g, const ClientData& data, const Local& local) const;
};

}  // namespace tessera
