// A federation as a picture: who holds how much of which class. Plain values, no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Holdings {
  struct Client {
    std::string name;
    bool newcomer = false;
    std::vector<int64_t> train, test;  // samples by class
  };
  std::string set;
  std::vector<std::string> classes;  // names
  std::vector<Client> clients;       // newcomers last
};

/// A row per client: name, training and test samples, and a block per class whose height is the
/// class's share of the client's training samples. At most 40 rows; at most `width` columns where
/// that leaves room for the classes (neighbouring classes share a block if they are many).
std::string holdings_text(const Holdings& holdings, int width);

/// A self-contained SVG document: clients along, classes down, the area of a disc the number of
/// training samples. Readable on light and dark pages. At most 120 clients and 100 classes.
std::string holdings_svg(const Holdings& holdings);

}  // namespace tessera
