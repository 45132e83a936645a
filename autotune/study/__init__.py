"""The Optuna study: space, first candidates, proposals, the loop, and the database it is kept in."""

import optuna

# Optuna reports every study made in memory; what a run has to say, it says itself.
optuna.logging.set_verbosity(optuna.logging.ERROR)
