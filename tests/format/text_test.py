"""CSV and JSON files against the modules csv and json."""

import csv
import json
import random

import numpy
from format_case import IMAGES, FormatTest, array_of, main


def plain(sample: dict) -> dict:
    """The fields as Python values: text as str, numbers as they are."""
    return {name: bytes.fromhex(field["bytes"]).decode() if field["type"] == "uint8" else array_of(field).tolist()
            for name, field in sample["fields"].items()}


class CsvTest(FormatTest):
    def test_the_csv_module_reads_our_csv(self):
        for form, dialect in (("csv", "excel"), ("tsv", "excel-tab")):
            with open(self.ours(f"a.{form}", form), newline="") as file:
                self.assertEqual(list(csv.reader(file, dialect)),
                                 [["label", "text"]] + [[str(i), f"sample {i}\n"] for i in range(3)])

    def test_we_read_what_the_csv_module_writes(self):
        noise = random.Random(5)
        texts = ["".join(noise.choices('a,"\n\r\t \u00e9;', k=noise.randrange(12))) + "x" for _ in range(300)]
        rows = [[i - 150, noise.uniform(-1e9, 1e9), text] for i, text in enumerate(texts)]
        for form, dialect in (("csv", "excel"), ("tsv", "excel-tab"), ("csv", "unix")):
            quoting = csv.QUOTE_NONNUMERIC if dialect == "unix" else csv.QUOTE_MINIMAL
            with open(self.folder / "b", "w", newline="", encoding="utf-8") as file:
                csv.writer(file, dialect, quoting=quoting).writerows([["i", "f", "t"], *rows])
            samples = [plain(sample) for sample in self.read(form, self.folder / "b", option="float64")]
            self.assertEqual([[sample["i"], sample["f"], sample["t"]] for sample in samples], rows)

    def test_we_read_what_numpy_writes(self):
        numbers = numpy.random.default_rng(0).normal(size=(20, 50)).astype("f4")
        numpy.savetxt(self.folder / "c.csv", numbers, delimiter=",")
        samples = self.read("csv", self.folder / "c.csv")
        read = numpy.stack([array_of(sample["fields"]["data"]) for sample in samples])
        self.assertEqual(read.dtype, numpy.float32)
        numpy.testing.assert_array_equal(read, numbers)

    def test_rows_of_integers_as_dlio_writes_them(self):
        row = numpy.random.default_rng(0).integers(0, 256, 60484)
        (self.folder / "d.csv").write_text((",".join(map(str, row)) + "\n") * 2)
        samples = self.read("csv", self.folder / "d.csv")
        self.assertEqual(len(samples), 2)
        numpy.testing.assert_array_equal(array_of(samples[1]["fields"]["data"]), row)

    def test_the_header_can_be_given(self):
        (self.folder / "e.csv").write_text("a,b\nc,d\n")
        self.assertEqual([plain(sample) for sample in self.read("csv", self.folder / "e.csv")], [{"a": "c", "b": "d"}])
        self.assertEqual(len(self.read("csv", self.folder / "e.csv", option="no-header")), 2)


class JsonTest(FormatTest):
    EXPECTED = [{"image": IMAGES[i], "label": [i], "text": f"sample {i}\n"} for i in range(3)]

    def test_the_json_module_reads_our_json(self):
        self.assertEqual(json.loads(self.ours("a.json", "json").read_text()), self.EXPECTED)
        lines = self.ours("a.jsonl", "jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line) for line in lines], self.EXPECTED)

    def test_we_read_what_the_json_module_writes(self):
        values = [{"i": i, "f": i / 7, "s": 'a"\\\n\u00e9\U0001f600', "list": [i, 2.5], "deep": {"x": {"y": [[1, 2], [3, 4]]}},
                   "words": ["a", ""], "yes": True} for i in range(50)]
        flat = [{"i": v["i"], "f": v["f"], "s": v["s"], "list": v["list"], "deep.x.y": [[1, 2], [3, 4]], "words.0": "a",
                 "words.1": "", "yes": True} for v in values]
        (self.folder / "b.jsonl").write_text("\n".join(map(json.dumps, values)))
        (self.folder / "b.json").write_text(json.dumps(values, indent=2))
        (self.folder / "c.json").write_text(json.dumps(values[7], ensure_ascii=False), encoding="utf-8")
        for form, file in (("jsonl", "b.jsonl"), ("json", "b.json")):
            self.assertEqual([plain(sample) for sample in self.read(form, self.folder / file, option="float64")], flat)
        self.assertEqual([plain(sample) for sample in self.read("json", self.folder / "c.json", option="float64")], [flat[7]])

    def test_damage_is_named(self):
        (self.folder / "d.jsonl").write_text('{"a": 1}\n{"a": }\n')
        self.assertIn("record 1 at byte 9: json:1: expected a value, found '}'", self.refused("jsonl", self.folder / "d.jsonl"))


if __name__ == "__main__":
    main()
