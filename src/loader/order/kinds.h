// Factories of the orders, one file each. For order.cc, which checks the options first.
#pragma once

#include <memory>

#include "loader/order/order.h"

namespace millrace::loader::order {

std::unique_ptr<Order> make_off_order(const Options& options);
std::unique_ptr<Order> make_global_order(const Options& options);
std::unique_ptr<Order> make_local_order(const Options& options);
std::unique_ptr<Order> make_partial_order(const Options& options);
std::unique_ptr<Order> make_file_order(const Options& options);
std::unique_ptr<Order> make_weighted_order(const Options& options);
std::unique_ptr<Order> make_mixture_order(const Options& options);
std::unique_ptr<Order> make_listed_order(const Options& options);

}  // namespace millrace::loader::order
