"""In verl's rollout workers: episodes, the policy, the judge."""
