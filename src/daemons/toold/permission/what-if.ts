// Decides a call that nobody makes, for `agentctl policy can`: by policy on the tool and on all it
// would touch, and by what toold itself requires. Nothing is recorded.
import { checkValue } from '../../../platform/check.ts';
import { pickArguments } from '../../../policy/arguments.ts';
import { callRequests, type Request, strictest } from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import type { CallDecisionView } from '../../../wire/toold.ts';
import type { Tool } from '../tools/tool.ts';
import type { Containment } from './containment.ts';
import { formatIssues, SUPPORTED_LEVELS } from './permission.ts';

export type WhatIfQuery = {
  agent: string;
  tool: Tool;
  /** Undefined: unknown, so that only the tool itself is decided if it needs arguments. */
  arguments: Record<string, unknown> | undefined;
  labels: readonly string[];
};
export type WhatIf = (query: WhatIfQuery) => Promise<CallDecisionView>;

type Part = CallDecisionView['parts'][number];

/** The task of a call that belongs to none. */
const NO_TASK = 'none';

export function makeWhatIf(options: {
  policy: Pick<PolicySource, 'decide' | 'toolsFor'>;
  containment: Pick<Containment, 'findSuspensions'>;
}): WhatIf {
  const { policy, containment } = options;

  /** Checks the requirements of toold itself. */
  const ownParts = async (agent: string, tool: Tool): Promise<Part[]> => {
    const { name, level, approval } = tool;
    const part = (answer: Part['answer'], rule: string, reason: string): Part => ({
      action: 'tool.call',
      resource: name,
      answer,
      rules: [rule],
      reason,
    });
    const parts: Part[] = [];
    if (!(await policy.toolsFor(agent)).includes(name))
      parts.push(part('deny', 'toold:granted', `the manifest of ${agent} does not grant it`));
    const { suspended } = containment.findSuspensions(name, undefined);
    if (suspended !== undefined)
      parts.push(part('deny', 'toold:suspended', `it is suspended: ${suspended.reason}`));
    if (!SUPPORTED_LEVELS.has(level))
      parts.push(part('deny', 'toold:level', `this host has no sandbox of level ${level}`));
    if (approval === 'required')
      parts.push(part('ask', `tool:${name}:approval`, 'each of its calls needs approval'));
    return parts;
  };

  return async ({ agent, tool, arguments: given, labels }) => {
    const parsed = checkValue(tool.input, given ?? {});
    if (!parsed.success && given !== undefined)
      throw fault('bad_request', `the arguments are invalid: ${formatIssues(parsed.issues)}`, {
        hint: `See the input of the tool: agentctl tool show ${tool.name}`,
      });
    const { name, risk, reversibility, idempotent, level } = tool;
    const input = parsed.success ? parsed.data : undefined;
    const [call, ...touched] = callRequests({
      agent,
      taskId: NO_TASK,
      rootTaskId: NO_TASK,
      labels,
      tool: {
        name,
        risk,
        reversibility: (parsed.success && tool.assessReversibility?.(input)) || reversibility,
        idempotent,
        level,
      },
      touches: (parsed.success && tool.touches?.(input)) || [],
      ...(parsed.success ? { arguments: () => pickArguments(tool.view.input_schema, input) } : {}),
    });
    const decideOne = async (request: Request) => {
      const { action, resource } = request;
      return { action, resource: resource.id, ...(await policy.decide(request)) };
    };
    const decided = await Promise.all([call!, ...touched].map(decideOne));
    const [first, ...rest] = decided.map(({ version: _, ...part }): Part => part);
    const parts = [first!, ...(await ownParts(agent, tool)), ...rest];
    const version = decided[0]!.version;
    return {
      answer: strictest(parts.map((part) => ({ ...part, version }))).answer,
      is_whole: parsed.success,
      policy_version: version,
      parts,
    };
  };
}
