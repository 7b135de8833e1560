// Selects the scenario and the reply for a request. Pure and stateless: the same request gets the
// same reply.
import type { NormalizedRequest } from '../normalized-request.ts';
import { type MatchContext, renderNumber } from './template.ts';
import type { MatchConditions, Pattern, Scenario, ScriptedReply } from './types.ts';

export type SelectedReply = {
  readonly scenario: Scenario;
  readonly reply: ScriptedReply;
  readonly context: MatchContext;
};

/** Longer prompts, user messages and tool results are truncated before matching. */
const PATTERN_INPUT_CHARS_MAX = 20_000;

function matchesPattern(pattern: Pattern, text: string): boolean {
  return pattern.kind === 'equal' ? pattern.value === text : pattern.regex.test(text);
}

function captureGroups(pattern: Pattern | undefined, text: string): RegExpExecArray | null {
  return pattern?.kind === 'regex' ? pattern.regex.exec(text) : null;
}

const limitPatternInput = (text: string) =>
  text.length > PATTERN_INPUT_CHARS_MAX ? text.slice(0, PATTERN_INPUT_CHARS_MAX) : text;

function readLastResult(request: NormalizedRequest): string {
  return limitPatternInput(request.results.at(-1)?.text ?? '');
}

function matchesRequest(match: MatchConditions, request: NormalizedRequest): boolean {
  if (match.wire !== undefined && match.wire !== request.wire) return false;
  if (match.step && !match.step.includes(request.step)) return false;
  if (match.agent && !match.agent.some((pattern) => matchesPattern(pattern, request.agent)))
    return false;
  if (match.model && !match.model.some((pattern) => matchesPattern(pattern, request.model)))
    return false;
  if (match.goal && !matchesPattern(match.goal, request.goal)) return false;
  if (match.system && !matchesPattern(match.system, limitPatternInput(request.system)))
    return false;
  if (match.lastUser && !matchesPattern(match.lastUser, limitPatternInput(request.lastUser)))
    return false;
  if (match.userText && !matchesPattern(match.userText, limitPatternInput(request.userText)))
    return false;
  if (match.hasTool && !match.hasTool.every((tool) => request.tools.has(tool))) return false;
  if (!match.lastResult) return true;
  return request.results.length > 0 && matchesPattern(match.lastResult, readLastResult(request));
}

function makeMatchContext(
  request: NormalizedRequest,
  match: MatchConditions,
  when: MatchConditions | undefined,
): MatchContext {
  return {
    request,
    goalMatch: captureGroups(when?.goal ?? match.goal, request.goal),
    lastUserMatch: captureGroups(
      when?.lastUser ?? match.lastUser,
      limitPatternInput(request.lastUser),
    ),
    lastResultMatch: captureGroups(when?.lastResult ?? match.lastResult, readLastResult(request)),
  };
}

/**
 * Replies with `when` take precedence at any step. The others form a sequence: each serves `times`
 * steps, and the last one serves all later steps, so that a scenario always has a reply.
 */
function selectFromScenario(scenario: Scenario, request: NormalizedRequest): SelectedReply {
  for (const reply of scenario.replies) {
    if (reply.when && matchesRequest(reply.when, request)) {
      return { scenario, reply, context: makeMatchContext(request, scenario.match, reply.when) };
    }
  }
  const context = makeMatchContext(request, scenario.match, undefined);
  const sequence = scenario.replies.filter((reply) => !reply.when);
  let lastStepServed = 0;
  for (const reply of sequence) {
    if (reply.times === 'forever') return { scenario, reply, context };
    lastStepServed += renderNumber(reply.times, context, { min: 0, max: 1_000_000 });
    if (request.step <= lastStepServed) return { scenario, reply, context };
  }
  return { scenario, reply: sequence.at(-1)!, context };
}

export function selectReply(
  scenarios: readonly Scenario[],
  request: NormalizedRequest,
): SelectedReply | undefined {
  const scenario = scenarios.find((candidate) => matchesRequest(candidate.match, request));
  return scenario && selectFromScenario(scenario, request);
}
