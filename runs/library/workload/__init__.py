"""Workloads, `day0/workload/v1`."""
