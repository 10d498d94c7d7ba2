"""Genotypes of a cohort in VCF files, one for each chromosome, parsed again in every epoch.
Cure: the genotypes as an int8 array for each chromosome."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

DISEASE = "VCF genotypes parsed in every epoch"
EXPECTED = ["text-parsing"]

CHROMOSOMES = 8
VARIANTS = 500
PEOPLE = 500
EPOCHS = 6


def make(directory):
    generator = np.random.default_rng(4)
    words = np.array([f"{a}|{b}:{depth}:{depth - 3},3" for a in (0, 1) for b in (0, 1) for depth in (12, 25, 38)])
    header = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
    header += "\t".join(f"HG{person:05}" for person in range(PEOPLE)) + "\n"
    for chromosome in range(1, CHROMOSOMES + 1):
        picks = generator.integers(0, len(words), (VARIANTS, PEOPLE))
        labels = generator.integers(0, CLASSES, VARIANTS)
        with open(directory / f"chr{chromosome}.vcf", "w") as vcf:
            vcf.write(header)
            for position in range(VARIANTS):
                vcf.write(f"chr{chromosome}\t{position * 97 + 1000}\t.\tA\tG\t99\tPASS\tCLS={labels[position]}\tGT:DP:AD\t"
                          + "\t".join(words[picks[position]]) + "\n")
        dosage = (picks // 6 + picks // 3 % 2).astype(np.int8)
        np.save(directory / f"chr{chromosome}.npy", np.hstack([labels[:, None].astype(np.int8), dosage]))


def read_vcf(path):
    labels, rows = [], []
    with open(path) as vcf:
        for line in vcf:
            if line.startswith("#"):
                continue
            fields = line.rstrip("\n").split("\t")
            labels.append(int(fields[7].split("CLS=")[1]))
            row = []
            for call in fields[9:]:
                first, second = call.split(":")[0].split("|")
                row.append(int(first) + int(second))
            rows.append(row)
    return np.array(labels), np.array(rows, np.float32)


def read_array(path):
    values = np.load(path)
    return values[:, 0].astype(np.int64), values[:, 1:].astype(np.float32)


class Variants(IterableDataset):
    def __init__(self, paths, read):
        self.paths = paths
        self.read = read

    def __iter__(self):
        worker = get_worker_info()
        paths = self.paths[worker.id::worker.num_workers]
        for which in torch.randperm(len(paths)).tolist():
            labels, rows = self.read(paths[which])
            for index in torch.randperm(len(labels)).tolist():
                yield torch.from_numpy(rows[index]), int(labels[index])


def train(directory, cured):
    paths = sorted(directory.glob("chr*.npy" if cured else "chr*.vcf"))
    loader = DataLoader(Variants(paths, read_array if cured else read_vcf), batch_size=32, num_workers=2,
                        persistent_workers=True)
    Training(model(PEOPLE, 256)).fit(loader, EPOCHS)
