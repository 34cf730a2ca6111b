"""Answers of a problem: the expected outputs of a call, and which others are right.

expected_outputs.py     the reference's outputs, and the expected ones
true_answer.py          the true answer, by a twin in fp64
best_truth.py           choice of the truth that is plausible beside the reference's own answer
plain_convolutions.py   its convolutions, without cuDNN where that is faster
pieces.py               computation along the batch, if its rows are independent
changed_inputs.py       inputs that the reference changes: a part of its answer
rounding.py             the answer with an error in every operation
narrow_products.py      errors of the answer if products are in 16 bits or TF32
narrowed_values.py      values in narrower types, and controls
left_out_terms.py       answers without the results of faint operators
tf32_products.py        error of the answer if its products are in TF32, where they may be
equivalent_answers.py   elements of a wrong answer that ties or rounding make right
"""
