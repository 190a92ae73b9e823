"""Response lengths of the target model, by recorded rollouts or by asking it.

Several responses a prompt tell chance within a prompt from differences between prompts, which the
length distributions of later stages rest on.
"""
