// Factories of the orders, one file each. For order.cc, which checks the options first.
#pragma once

#include <memory>

#include "loader/order/order.h"

namespace millrace::loader {

std::unique_ptr<Order> make_off_order(const OrderOptions& options);
std::unique_ptr<Order> make_global_order(const OrderOptions& options);
std::unique_ptr<Order> make_local_order(const OrderOptions& options);
std::unique_ptr<Order> make_partial_order(const OrderOptions& options);
std::unique_ptr<Order> make_file_order(const OrderOptions& options);

}  // namespace millrace::loader
