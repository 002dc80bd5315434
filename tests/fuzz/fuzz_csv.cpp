#include "expect.hpp"
#include "io/csv.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto csv = parse_csv({data, size}, "fuzz");
  if (!csv.ok()) return 0;
  size_t bytes = 0;
  for (size_t row = 0; row < csv->rows(); ++row)
    for (size_t column = 0; column < csv->header().size(); ++column)
      bytes += csv->cell(row, column).size() + (csv->missing(row, column) ? 0 : 1);
  expect(bytes <= 2 * size, "cells come from the file");
  for (const auto& name : csv->header()) {
    const auto numbers = csv->numbers(name);
    const auto column = csv->column(name);
    expect(column.ok(), "a header's name is a column");
    for (size_t row = 0; row < csv->rows(); ++row) {
      const auto number = csv->number(row, *column);
      expect(!number || !csv->missing(row, *column), "a number is not missing");
      expect(!numbers.ok() || number.has_value() != csv->missing(row, *column),
             "a column of numbers has a number in every cell that is not missing");
      expect(!csv->place(row, *column).empty(), "every cell has a place");
    }
    expect(!numbers.ok() || numbers->size() == csv->rows(), "a number for each row");
    const auto integers = csv->integers(name);
    expect(!integers.ok() || numbers.ok(), "whole numbers are numbers");
  }
  return 0;
}
