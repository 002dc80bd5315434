// A client's data: row numbers into a pool that all clients share, or a promise of them. Nothing is
// copied per client.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "data/row_order.hpp"

namespace tessera {

using at::Tensor;

/// All samples of a dataset, preprocessed. x float32 [n, …] (may be an overlapping view, as for
/// windows of a time series), y int64 [n] in 0 … classes−1. Each sample is contiguous. Immutable
/// once built.
struct Pool {
  Tensor x, y;
  int64_t classes = 0;
  /// Of pictures, where it is so: x = (pixel − mean) / std for each channel, pixels from 0 to 1.
  std::vector<double> pixel_mean = {}, pixel_std = {};
  bool derived = false;  // what a client computed from its samples for a stage of its own
  /// Where labels are shares of classes: float32 [n, classes], and y the class with the largest.
  Tensor shares = {};
};

/// How raw numbers became those of a pool: (raw − mean) · scale, one pair for each feature of a
/// vector or sequence, or for each channel of a picture. scale is 1 / standard deviation, 0 for a
/// feature that never varied; features left alone (one-hot) have 0 and 1. Empty: nothing was done.
struct Scaling {
  std::vector<float> mean, scale;
  bool operator==(const Scaling&) const = default;
};

/// Where a sample shows what its label was last, in series whose label's past is an input: a value
/// of the sample, laid flat, and the limits between the classes. The class is the number of limits
/// below the value; limits ascend, one fewer than classes.
struct LastLabel {
  int64_t at = 0;
  std::vector<float> limits;
};

struct Examples {
  Tensor x, y;
  int64_t size() const { return y.defined() ? y.size(0) : 0; }
};

/// kSupport: labelled samples a client may adapt on before it is tested (partition mper2);
/// empty elsewhere, where adaptation uses kTrain.
enum class Part { kTrain, kVal, kTest, kSupport };

/// The batches that were taken, in order: positions in a part. For `debug.dump`.
using BatchLog = std::vector<std::pair<Part, std::vector<int64_t>>>;

/// Positions of training rows on either side of a cut: 0 … early−1 and late … n−1.
struct RowCut {
  int64_t early, late;
};

class ClientData;

/// Where data come from that do not stay in memory: a file each, or a formula. Thread-safe.
class ClientSource {
 public:
  virtual ~ClientSource() = default;
  /// A client's data, whole: the same bits at every call, whoever asks and in whatever order.
  /// Errors name the file.
  virtual Result<std::shared_ptr<const ClientData>> open(int64_t number) const = 0;
};

/// What is known of a client whose data are elsewhere.
struct Elsewhere {
  std::shared_ptr<const ClientSource> source = nullptr;  // null: the data are here
  int64_t number = 0;                                    // of the client at its source
  std::array<int32_t, 4> sizes = {};                     // rows by Part
};

/// Either here, or elsewhere: then there are a name, sizes and a scaling but no rows and no pool,
/// and open() gives them.
///
/// Training rows stand in random order, so the first k of them are a random subset (with partition
/// mper2 one with the client's class shares), or in the order of time (`order`): cut() and sample()
/// do right by both. A newcomer of mper2 trains on its support rows.
class ClientData {
 public:
  std::string name;  // "7", or the station's or file's name
  std::shared_ptr<const Pool> pool;
  std::vector<int64_t> train, val, test, support;    // rows of the pool
  std::shared_ptr<BatchLog> log = nullptr;           // where take() notes its batches; usually none
  std::shared_ptr<const Scaling> scaling = nullptr;  // own data only; null: values are as given
  RowOrder order = {};
  std::shared_ptr<const LastLabel> last_label = nullptr;  // null: samples do not show it

  Elsewhere elsewhere = {};

  bool is_here() const { return elsewhere.source == nullptr; }
  /// These data if they are here, borrowed; else what their source gives.
  Result<std::shared_ptr<const ClientData>> open() const;
  /// Throws where the data are elsewhere, as do all that need rows; sizes are always known.
  const std::vector<int64_t>& rows(Part part) const;
  int64_t size(Part part) const {
    return is_here() ? static_cast<int64_t>(rows(part).size())
                     : elsewhere.sizes[static_cast<size_t>(part)];
  }
  int64_t train_size() const { return size(Part::kTrain); }
  /// What a client adapts on before a test: its support rows, or its training rows without any.
  Part adaptation() const { return size(Part::kSupport) == 0 ? Part::kTrain : Part::kSupport; }
  int64_t classes() const { return pool->classes; }
  /// The samples at these positions of the part (0 … size−1), gathered into new tensors; y are the
  /// shares where there are any.
  Examples take(Part part, std::span<const int64_t> positions) const;
  /// Positions begin … end−1 of the part.
  Examples range(Part part, int64_t begin, int64_t end) const;
  std::vector<int64_t> class_counts(Part part) const;
  /// The training rows in two, the last `count` (0 … n−1) of them apart. Of rows in the order of
  /// time those before the cut that share values with the later part are left out, as long as one
  /// stays; of others none.
  RowCut cut(int64_t count) const;
  /// At most `most` positions of the part that stand for all of it: the first ones of rows in
  /// random order, every k-th of rows in the order of time.
  std::vector<int64_t> sample(Part part, int64_t most) const;
};

}  // namespace tessera
