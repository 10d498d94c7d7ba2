// StoreEngine: an io::Engine whose files are those of a store.
//
// With it, everything that reads through an engine reads a store: folders of samples and all
// formats. Paths below the store's root are found in the catalogue; all others are left to another
// engine. A sample that is a raw member of a partition on this node is a view of the mapping
// (view_whole). A file of many samples is a view, too, or else its real file in the node's tree.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "io/engine.h"
#include "store/service/node_files.h"

namespace millrace::store {

// `inner` reads all other paths, and files of the node's tree.
std::shared_ptr<io::Engine> make_store_engine(std::shared_ptr<const NodeFiles> files,
                                              std::shared_ptr<io::Engine> inner);

// The engine for these paths: that of the job's store (MILLRACE_STORE) if one of them is below its
// root, otherwise `inner` itself.
std::shared_ptr<io::Engine> engine_for(std::span<const std::string> paths,
                                       std::shared_ptr<io::Engine> inner);

}  // namespace millrace::store
