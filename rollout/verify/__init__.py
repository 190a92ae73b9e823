"""Did the trainer follow the schedule?"""
