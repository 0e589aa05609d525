"""What commands share: jobs, child processes, answers, stdout."""
