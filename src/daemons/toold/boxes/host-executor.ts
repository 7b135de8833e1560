// Runs the commands of declared tools with `place: host`, each in its own sandbox with the declared
// paths, minus those that policy denies the agent.
import { isNarrower } from '../../../policy/box-rules.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { CommandExecutor } from '../command-tools/directory.ts';
import type { ToolRun } from '../runs.ts';
import { notStartedFault } from '../tools/box.ts';
import type { EgressdClient } from '../tools/http.ts';
import {
  buildBaseEnv,
  EXEC_GRACE_MS,
  endedByPolicy,
  type SandboxdClient,
  toCommand,
  toExecResult,
  toWorkspace,
} from './commands.ts';
import { withDenials } from './network-denials.ts';
import type { RulesWatch } from './rules-watch.ts';

export function makeHostExecutor(options: {
  sandboxd: Pick<SandboxdClient, 'runOnce'>;
  policy: Pick<PolicySource, 'planDeclaredPaths'>;
  watch: RulesWatch;
  /** Null where policy allows the agent no host. */
  openEgressSocket: (runId: RunId) => Promise<string | null>;
  egressd: Pick<EgressdClient, 'getEgress'>;
  runOf: (runId: RunId) => ToolRun;
}): CommandExecutor {
  const { sandboxd, policy, watch, egressd } = options;
  return {
    async run(context, request) {
      const { level, read, write, cwd } = request;
      const rules = await policy.planDeclaredPaths(context.agent, { read, write });
      if ('refused' in rules)
        throw fault('denied', `this tool may not run for ${context.agent}: ${rules.refused}`, {
          hint: 'Do without it. An operator can change the rule, or the paths of the tool.',
        });
      const paths = { read: [...read], write: [...write] };
      const socket = request.hasNetwork ? await options.openEgressSocket(context.runId) : null;
      const env = buildBaseEnv(context, { hasEgress: socket !== null });
      const body = {
        run_id: context.runId,
        fence: context.fence,
        agent: context.agent,
        task_id: context.taskId,
        root_task_id: context.rootTaskId,
        level,
        rules: { ...paths, deny: rules.deny },
        network: { egress_socket: socket },
        ...toWorkspace(options.runOf(context.runId)),
        call_id: context.callId,
        collect: true,
        ...toCommand({ ...request, cwd }, env),
      };
      const deadlineMs = request.wallMs + EXEC_GRACE_MS;
      const ended = new AbortController();
      const asked = { deadlineMs, signal: AbortSignal.any([request.signal, ended.signal]) };
      const watching = {
        async isNarrower() {
          const now = await policy.planDeclaredPaths(context.agent, { read, write });
          return 'refused' in now || isNarrower({ ...paths, ...now }, { ...paths, ...rules });
        },
        end: () => ended.abort(),
      };
      if (request.signal.aborted) throw notStartedFault();
      const run = async () => {
        if (socket === null) return toExecResult(await sandboxd.runOnce({ body }, asked), []);
        const once = () => sandboxd.runOnce({ body }, asked);
        const { done, denied } = await withDenials(egressd, context.runId, once);
        return toExecResult(done, denied);
      };
      return watch.during(watching, run).catch((error: unknown) => {
        if (ended.signal.aborted) return endedByPolicy();
        throw error;
      });
    },
  };
}
