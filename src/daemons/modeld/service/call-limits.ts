// The limits of one call that are no budget: the steps of its run, and the model's window.
import { fault } from '../../../wire/errors.ts';
import type { ModelCall } from './model-call.ts';
import type { RoutePlan } from './ports.ts';

/** A second attempt at the same call is not one more step of the run. */
export function isStep({ via, attempt, identity }: ModelCall): boolean {
  return via !== 'embed' && via !== 'count' && attempt === 1 && identity.run !== undefined;
}

export function assertStepLeft({ identity }: ModelCall): void {
  const { runId, steps, stepsMax } = identity.run!;
  if (steps < stepsMax) return;
  throw fault('limit', `${runId} has made its ${stepsMax} model calls`, {
    hint: 'End the task with the current result, or start one with a higher --max-steps.',
    details: { max_steps: stepsMax },
  });
}

/** Uses the guess of four bytes a token: the bound would refuse input that fits. */
export function assertFits(
  { model, inputTokensMax }: ModelCall,
  { inputTokensGuess: guess }: RoutePlan,
): void {
  // Near the window the provider decides, because it counts exactly.
  const window = model.isExact ? model.contextTokens * 1.5 : Number.POSITIVE_INFINITY;
  if (guess <= Math.min(inputTokensMax ?? window, window)) return;
  const limit =
    inputTokensMax !== undefined && inputTokensMax <= window
      ? `the limit of this call is ${inputTokensMax}`
      : `the window of ${model.name} is ${model.contextTokens}`;
  throw fault('context_too_long', `the input has about ${guess} tokens; ${limit}`, {
    details: { input_tokens_guess: guess },
  });
}
