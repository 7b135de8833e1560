// A tool by the name that people use, or by the one that models use, which has no dots.
import { fault } from '../../../wire/errors.ts';
import type { ToolView } from '../../../wire/toold.ts';
import type { Runtime } from '../runtime.ts';

export async function findTool(runtime: Runtime, name: string): Promise<ToolView> {
  const { tools } = await runtime.ask('toold', 'listTools', {});
  const found = tools.find((one) => one.name === name || one.name.replaceAll('.', '_') === name);
  if (found !== undefined) return found;
  throw fault('not_found', `there is no tool ${name}`, { hint: 'See: agentctl tool list' });
}
