// Runs a small agent loop against the server for tests, over either wire: it sends a request, runs
// the requested tool calls with a stub, and sends the results. It stands in for the runner.
import {
  ANTHROPIC_TOOLS,
  OPENAI_TOOLS,
  postChat,
  postMessages,
  readPath,
  type TestServer,
} from './testing.ts';

export type LoopCall = { readonly name: string; readonly input: Record<string, unknown> };
export type LoopStep = { readonly text: string; readonly calls: readonly LoopCall[] };
export type ToolStub = (call: LoopCall, index: number) => string;

export type LoopOptions = {
  readonly agent: string;
  readonly goal: string;
  readonly stepsMax?: number;
  readonly tools?: readonly string[];
  readonly runTool?: ToolStub;
};

type WireMessage = {
  readonly content: string | null;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
};
type WireBlock = LoopCall & { readonly type: string; readonly id: string; readonly text: string };

const completeCall: ToolStub = () => JSON.stringify({ status: 'completed', result: 'done' });

function parseInput(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text);
  } catch {
    return { unparsable: text };
  }
}

const makePrompts = (options: LoopOptions) => ({
  system: `You work in a team.\nYou are agent:${options.agent}\nBe brief.`,
  user: `Task task_1\nGoal: ${options.goal}\nInputs: none`,
});

const isLastStep = (calls: readonly LoopCall[]) =>
  calls.length === 0 ||
  calls.some((call) => call.name === 'task_finish' && !('unparsable' in call.input));

export async function runOpenaiLoop(server: TestServer, options: LoopOptions): Promise<LoopStep[]> {
  const { system, user } = makePrompts(options);
  const messages: unknown[] = [
    { role: 'system', content: system },
    { role: 'user', content: user },
  ];
  const tools = OPENAI_TOOLS.filter((tool) => options.tools?.includes(tool.function.name) ?? true);
  const steps: LoopStep[] = [];
  while (steps.length < (options.stepsMax ?? 20)) {
    const body = { model: 'rehearsal-large', messages, ...(tools.length > 0 ? { tools } : {}) };
    const response = await postChat(server, body);
    if (response.status !== 200) throw new Error(response.text);
    const message = readPath<WireMessage>(response.json, 'choices.0.message');
    const wireCalls = message.tool_calls ?? [];
    const calls = wireCalls.map((call) => ({
      name: call.function.name,
      input: parseInput(call.function.arguments),
    }));
    steps.push({ text: message.content ?? '', calls });
    if (isLastStep(calls)) break;
    messages.push(message);
    for (const [index, call] of wireCalls.entries()) {
      const content = (options.runTool ?? completeCall)(calls[index]!, index);
      messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
  return steps;
}

export async function runAnthropicLoop(
  server: TestServer,
  options: LoopOptions,
): Promise<LoopStep[]> {
  const { system, user } = makePrompts(options);
  const messages: unknown[] = [{ role: 'user', content: user }];
  const tools = ANTHROPIC_TOOLS.filter((tool) => options.tools?.includes(tool.name) ?? true);
  const steps: LoopStep[] = [];
  while (steps.length < (options.stepsMax ?? 20)) {
    const response = await postMessages(server, {
      model: 'rehearsal-large',
      max_tokens: 4096,
      system,
      messages,
      ...(tools.length > 0 ? { tools } : {}),
    });
    if (response.status !== 200) throw new Error(response.text);
    const content = readPath<WireBlock[]>(response.json, 'content');
    const uses = content.filter((block) => block.type === 'tool_use');
    const calls = uses.map(({ name, input }) => ({
      name,
      input: 'unexpected' in input ? { unparsable: input.unexpected } : input,
    }));
    const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    steps.push({ text, calls });
    if (isLastStep(calls)) break;
    messages.push({ role: 'assistant', content });
    const results = uses.map((use, index) => ({
      type: 'tool_result',
      tool_use_id: use.id,
      content: (options.runTool ?? completeCall)(calls[index]!, index),
    }));
    messages.push({ role: 'user', content: results });
  }
  return steps;
}
