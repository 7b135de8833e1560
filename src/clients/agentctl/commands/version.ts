// agentctl version: prints the versions of agentctl, Node and the running runtime.
import type { Session } from '../command.ts';
import { readOwnVersion } from '../programs.ts';
import { isAlive, readRuntimeInfo } from '../state.ts';

export async function version({ out, stateDir }: Session): Promise<void> {
  const info = readRuntimeInfo(stateDir);
  const runtime = info !== undefined && isAlive(info.pid) ? info.version : null;
  const own = readOwnVersion();
  out.print({ version: { agentctl: own, node: process.versions.node, runtime } }, () => [
    `agentctl ${own} (Node ${process.versions.node})`,
    runtime === null
      ? `no runtime is running on ${stateDir}`
      : `runtime ${runtime}${runtime === own ? '' : '; restart it to use this version'}`,
  ]);
}
