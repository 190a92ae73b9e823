"""Which settings of the stages, and which share of the devices, suit a cluster?"""
