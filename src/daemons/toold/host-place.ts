// Where a declared tool with `place: host` runs: a sandbox of its own for one command, with the
// paths of its declaration, less what rules close for the agent.
import { isNarrower } from '../../policy/box-rules.ts';
import type { PolicySource } from '../../policy/source.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxdClient } from './boxes.ts';
import type { Place } from './command-tools.ts';
import { commandOf, EXEC_GRACE_MS, endedByPolicy, resultOf } from './commands.ts';
import type { RulesWatch } from './rules-watch.ts';
import { notBegun } from './tools/box.ts';

export function makeHostPlace(options: {
  sandboxd: Pick<SandboxdClient, 'runOnce'>;
  policy: Pick<PolicySource, 'declaredRulesOf'>;
  watch: RulesWatch;
}): Place {
  const { sandboxd, policy, watch } = options;
  return {
    async run(context, request) {
      if (request.network !== 'none')
        throw fault('denied', 'a command outside the box gets no network here', {
          hint: 'Declare the tool with place: box and give the agent the host, or network: none.',
        });
      const { level, read, write, cwd } = request;
      const rules = await policy.declaredRulesOf(context.agent, { read, write });
      if ('refused' in rules)
        throw fault('denied', `this tool does not run for ${context.agent}: ${rules.refused}`, {
          hint: 'Do without it. A person can change the rule, or the paths of the tool.',
        });
      const paths = { read: [...read], write: [...write] };
      const body = {
        ...{ run_id: context.runId, fence: context.fence, agent: context.agent },
        ...{ task_id: context.taskId, root_task_id: context.rootTaskId, level },
        rules: { ...paths, deny: rules.deny },
        network: { egress_socket: null },
        ...{ call_id: context.callId, collect: true, ...commandOf({ ...request, cwd }, {}) },
      };
      const deadlineMs = request.wallMs + EXEC_GRACE_MS;
      const ended = new AbortController();
      const asked = { deadlineMs, signal: AbortSignal.any([request.signal, ended.signal]) };
      const watching = {
        async isNarrower() {
          const now = await policy.declaredRulesOf(context.agent, { read, write });
          return 'refused' in now || isNarrower({ ...paths, ...now }, { ...paths, ...rules });
        },
        end: () => ended.abort(),
      };
      if (request.signal.aborted) throw notBegun();
      const run = async () => resultOf(await sandboxd.runOnce({ body }, asked), []);
      return watch.during(watching, run).catch((error: unknown) => {
        if (ended.signal.aborted) return endedByPolicy();
        throw error;
      });
    },
  };
}
