"""Everything that must survive a crash: checkpoints, histories, finished parts, folders."""
