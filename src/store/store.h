// store: a dataset packed into a few large files, for the storage of a job's nodes.
//
// A pack is a directory with a catalogue and partitions (docs/formats/pack.md). Guarantees: a pack
// that is not complete has no catalogue, and a partition that is not complete has another name;
// every byte has a checksum; readers believe nothing that they have not checked, and no name can
// leave the directory. Equal files give equal packs. docs/design/store.md has the reasons.
#pragma once

#include "store/pack/catalogue.h"
#include "store/pack/pack.h"
