#!/usr/bin/env python3
"""Tests of tools/check_layers.py."""

import shutil
import unittest

from check_case import CheckTest


class LayersTest(CheckTest):
    script = "check_layers.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("tools/layers.txt",
                   "# comment\nwire:\nbase: wire  # why\nbenchmarks/: *\ntests/: *\n")
        self.write("src/wire/wire.h", "#pragma once\n")
        self.write("src/base/base.h", '#include <string>\n#include "wire/wire.h"\n')
        self.write("src/base/base.cc", '#include "base/base.h"\n')

    def layers(self, *lines: str) -> None:
        self.write("tools/layers.txt", "\n".join(lines) + "\nbenchmarks/: *\ntests/: *\n")

    def test_a_clean_tree_passes_and_is_counted(self) -> None:
        self.assert_passes("layers: 2 modules, 3 files, 2 includes, all as tools/layers.txt allows")

    def test_an_include_that_is_not_allowed(self) -> None:
        self.write("src/wire/bad.h", '#pragma once\n\n#include "base/base.h"\n')
        self.assert_finds('src/wire/bad.h:3: wire may not include base ("base/base.h"). Move ')

    def test_only_tests_include_test_code(self) -> None:
        self.write("src/base/testing/fake.h", "#pragma once\n")
        for path in ("src/base/base_test.cc", "src/base/testing/fake.cc", "src/base/user.cc"):
            self.write(path, '#include "base/testing/fake.h"\n')
        self.assert_finds('src/base/user.cc:1: the program may not include test code '
                          '("base/testing/fake.h"). Move ')

    def test_nothing_is_inherited(self) -> None:
        self.layers("wire:", "base: wire", "cli: base")
        self.write("src/cli/main.c", '#include "base/base.h"\n#include "wire/wire.h"\n')
        self.assert_finds("src/cli/main.c:2: cli may not include wire ")

    def test_templates_are_checked_too(self) -> None:
        for template in ("a.c.in", "a.cc.in", "a.h.in"):
            self.write(f"src/wire/{template}", '#include "base/base.h"\n')
        self.assert_finds("src/wire/a.c.in:1: wire may not include base ",
                          "src/wire/a.cc.in:1: wire may not include base ",
                          "src/wire/a.h.in:1: wire may not include base ")

    def test_only_real_include_lines_count(self) -> None:
        self.write("src/wire/quiet.cc",
                   '// #include "base/base.h"\n/*\n#include "base/base.h"\n*/\n'
                   'const char* text = R"x(\n#include "base/base.h"\n)x";\n'
                   '#  include "wire/wire.h"  // this one does\n')
        self.assert_passes("layers: 2 modules, 4 files, 3 includes, all as tools/layers.txt allows")

    def test_a_folder_without_a_line(self) -> None:
        self.write("src/io/io.h", '#include "base/base.h"\n')
        self.assert_finds("src/io: the folder has no line in tools/layers.txt. Add a line `io: ")

    def test_a_tree_without_a_line(self) -> None:
        self.write("tools/layers.txt", "wire:\nbase: wire\n")
        self.write("benchmarks/a.cc", '#include "base/base.h"\n')
        self.assert_finds("benchmarks: the folder has no line in tools/layers.txt. Add a line `benchmarks/: ")

    def test_a_line_without_a_folder(self) -> None:
        self.layers("wire:", "base: wire", "io: base")
        (self.root / "src/io").mkdir()
        self.assert_finds("tools/layers.txt:3: the module io has no files in src/io. Remove ")

    def test_an_include_relative_to_its_own_file(self) -> None:
        self.write("src/base/base.cc", '#include "base.h"\n')
        self.assert_finds('src/base/base.cc:1: "base.h" is not rooted at src/. '
                          'Write #include "base/base.h"')

    def test_an_include_with_a_roundabout_path(self) -> None:
        for detour in ("../wire/wire.h", "base/../wire/wire.h", "wire/./wire.h", "wire//wire.h",
                       "src/wire/wire.h"):
            with self.subTest(detour):
                self.write("tests/unit/a.cc", f'#include "{detour}"\n')
                self.write("src/base/base.cc", f'#include "{detour}"\n')
                found = (f'"{detour}" is not rooted at src/. Write #include "wire/wire.h"' if
                        detour != "../wire/wire.h" else "there is no src/../wire/wire.h for ")
                self.assert_finds(f'src/base/base.cc:1: "{detour}" is not rooted at src/. '
                                  'Write #include "wire/wire.h"', f"tests/unit/a.cc:1: {found}")

    def test_an_include_of_a_file_outside_the_tree(self) -> None:
        (self.root.parent / "outside.h").write_text("", encoding="utf-8")
        self.write("src/base/base.cc", '#include "../../../outside.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/../../../outside.h for ")

    def test_a_file_outside_all_modules(self) -> None:
        self.write("src/top.h", "")
        self.write("src/base/base.cc", '#include "top.h"\n')
        self.assert_finds("src/base/base.cc:1: base may not include top.h ",
                          "src/top.h: the file is not in a module. Move it ")

    def test_an_include_of_a_file_that_does_not_exist(self) -> None:
        self.write("src/base/base.cc", '#include "wire/gone.h"\n#include "gtest/gtest.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/wire/gone.h for ",
                          "src/base/base.cc:2: there is no src/gtest/gtest.h for ")

    def test_a_generated_file_is_known_by_its_template(self) -> None:
        self.write("src/base/info.cc.in", "")
        self.write("src/base/base.cc", '#include "base/info.cc"\n')
        self.assert_passes("layers: 2 modules, 4 files, 2 includes, all as tools/layers.txt allows")

    def test_trees_may_include_every_module_and_themselves(self) -> None:
        self.write("tests/fuzz/target.h", '#include "wire/wire.h"\n')
        self.write("tests/fuzz/a.cc", '#include "base/base.h"\n#include "tests/fuzz/target.h"\n')
        self.write("benchmarks/a.cc", '#include "base/base.h"\n')
        self.assert_passes("layers: 2 modules, 6 files, 6 includes, all as tools/layers.txt allows")

    def test_a_tree_may_not_include_another_tree(self) -> None:
        self.write("tests/target.h", "")
        self.write("benchmarks/a.cc", '#include "tests/target.h"\n')
        self.assert_finds("benchmarks/a.cc:1: benchmarks/ may not include tests/ ")

    def test_a_module_may_not_include_a_tree(self) -> None:
        self.write("tests/target.h", "")
        self.write("src/base/base.cc", '#include "tests/target.h"\n')
        self.assert_finds("src/base/base.cc:1: there is no src/tests/target.h for ")

    def test_a_test_includes_even_its_neighbour_by_the_full_path(self) -> None:
        self.write("tests/fuzz/target.h", "")
        self.write("tests/fuzz/a.cc", '#include "target.h"\n')
        self.assert_finds('tests/fuzz/a.cc:1: "target.h" is not rooted at src/. '
                          'Write #include "tests/fuzz/target.h"')

    def test_a_module_and_a_tree_may_share_a_name(self) -> None:
        self.layers("wire:", "base: wire", "bench: wire")
        self.write("src/bench/bench.h", '#include "base/base.h"\n')
        self.write("benchmarks/a.cc", '#include "base/base.h"\n')
        self.assert_finds("src/bench/bench.h:1: bench may not include base ")

    def test_a_cycle(self) -> None:
        self.layers("wire: base", "base: wire")
        self.assert_finds("tools/layers.txt:1: the layers have a cycle: wire -> base -> wire. ")

    def test_a_long_cycle_is_reported_once(self) -> None:
        self.layers("wire: io", "base: wire", "io: base")
        self.write("src/io/io.h", "")
        self.assert_finds("tools/layers.txt:1: the layers have a cycle: "
                          "wire -> io -> base -> wire. ")

    def test_invalid_lines(self) -> None:
        self.layers("wire:", "base: wire oi", "base: wire", "a line", "word", "two words: wire")
        self.assert_finds("tools/layers.txt:2: base may include oi, which has no line. ",
                          "tools/layers.txt:3: base is already on line 2. ",
                          "tools/layers.txt:4: cannot read 'a line'. ",
                          "tools/layers.txt:5: cannot read 'word'. ",
                          "tools/layers.txt:6: cannot read 'two words: wire'. ")

    def test_the_diagram_leaves_out_arrows_that_follow(self) -> None:
        self.layers("wire:", "hook: wire", "base: wire", "io: base wire")
        for module in ("hook", "io"):
            self.write(f"src/{module}/a.h", "")
        self.assert_passes("    io       --> base\n    hook     --> wire\n    base     --> wire\n    wire",
                           "--diagram")

    def test_a_page_with_another_diagram(self) -> None:
        self.write("docs/architecture.md", "# Architecture\n\n    base     --> wire\n    wire\n\nMore.\n")
        self.assert_passes("layers: 2 modules, 3 files, 2 includes, all as tools/layers.txt allows")
        self.write("docs/architecture.md", "# Architecture\n\n    wire\n\nMore.\n")
        self.assert_finds("docs/architecture.md: its diagram is not that of tools/layers.txt. Replace it by ")

    def test_a_missing_list(self) -> None:
        (self.root / "tools/layers.txt").unlink()
        self.assert_finds("tools/layers.txt: the file is missing. ")

    def test_a_tree_without_sources_fails(self) -> None:
        shutil.rmtree(self.root / "src")
        self.write("tools/layers.txt", "")
        self.assert_finds("there are no files to check. Give the repository with --root")


class PreloadLayersTest(CheckTest):
    """Preload code of a module whose other code may include base."""

    script = "check_layers.py"

    def setUp(self) -> None:
        super().setUp()
        self.write("tools/layers.txt", "wire:\nbase: wire\nhook: wire\nstore: base wire\n")
        for header in ("wire/wire", "base/base", "hook/hook", "store/store"):
            self.write(f"src/{header}.h", "")
        self.write("src/store/preload/own.h", "")

    def test_wire_hook_and_itself_pass(self) -> None:
        self.write("src/store/preload/deep/open.cc", '#include "hook/hook.h"\n'
                   '#include "store/preload/own.h"\n#include "wire/wire.h"\n')
        self.assert_passes("layers: 4 modules, 6 files, 3 includes, all as tools/layers.txt allows")

    def test_other_modules_and_its_own_module_fail(self) -> None:
        self.write("src/store/preload/deep/open.cc",
                   '#include "base/base.h"\n#include "store/store.h"\n')
        rule = "preload code may include only wire, hook and src/store/preload/, not"
        self.assert_finds(f'src/store/preload/deep/open.cc:1: {rule} "base/base.h". It runs ',
                          f'src/store/preload/deep/open.cc:2: {rule} "store/store.h". It runs ')

    def test_the_rest_of_the_module_obeys_its_line(self) -> None:
        self.write("src/store/client.cc", '#include "base/base.h"\n#include "hook/hook.h"\n')
        self.assert_finds("src/store/client.cc:2: store may not include hook ")


if __name__ == "__main__":
    unittest.main()
