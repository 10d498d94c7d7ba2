"""League training of a game: at each step, the weights of a random former opponent are loaded from disk by the loop.

The cure loads the opponents once, and keeps them in memory.
"""

import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DISEASE = "an opponent's weights loaded from disk by the training loop, at each step"
EXPECTED = ["loop-stall", "hot-small-file"]

OPPONENTS = 16
STATE = 800
ACTIONS = 64


def policy():
    return nn.Sequential(nn.Linear(STATE, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, ACTIONS))


def make(directory: Path) -> None:
    generator = np.random.default_rng(18)
    (directory / "league").mkdir(parents=True, exist_ok=True)
    np.save(directory / "states.npy", generator.standard_normal((3600, STATE), dtype=np.float32))
    np.save(directory / "moves.npy", generator.integers(0, ACTIONS, 3600))
    for number in range(OPPONENTS):
        torch.save(policy().state_dict(), directory / "league" / f"agent_{number:02d}.pt")


def load_opponent(opponent, path):
    opponent.load_state_dict(torch.load(path))
    return opponent.eval()


def train(directory: Path, cured: bool) -> None:
    random.seed(0)
    league = sorted((directory / "league").glob("*.pt"))
    opponents = [load_opponent(policy(), path) for path in league] if cured else None
    opponent = policy()
    states = torch.from_numpy(np.load(directory / "states.npy"))
    moves = torch.from_numpy(np.load(directory / "moves.npy"))
    loader = DataLoader(TensorDataset(states, moves), batch_size=16, shuffle=True)
    agent = nn.Sequential(nn.Linear(STATE, 256), nn.ReLU(), nn.Linear(256, ACTIONS))
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.001)
    for _ in range(3):
        for state, move in loader:
            opponent = random.choice(opponents) if cured else load_opponent(opponent, random.choice(league))
            with torch.no_grad():
                reply = opponent(state).argmax(1)
            reward = torch.where(reply == move, -1.0, 1.0)
            loss = (nn.functional.cross_entropy(agent(state), move, reduction="none") * reward).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
