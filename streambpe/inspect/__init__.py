"""Everything that only looks: check, plan, evaluate, explain, report, status and watch."""
