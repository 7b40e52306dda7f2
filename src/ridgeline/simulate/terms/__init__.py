"""The terms of a step's price, a module each: functions of a batch's size, a GPU and cost parameters, in seconds."""
