"""A real Airflow runs every DAG on a small site, with tasks that are killed mid-way and tried again."""
