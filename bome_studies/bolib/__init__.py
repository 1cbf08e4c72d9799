"""Problems with known optima: who solves them, how fast, and whose verdicts are true."""
