// Defines the parts of OpenAI's Responses API that this server reads and writes. A test compares
// them with the `openai` package.

export type ItemContentPart = {
  readonly type: string;
  readonly text?: string;
  readonly refusal?: string;
};
export type ItemContent = string | readonly ItemContentPart[];

/** Any input item; which members it has depends on its type. */
export type InputItem = {
  readonly type?: string;
  readonly role?: string;
  readonly content?: ItemContent;
  readonly call_id?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly arguments?: string;
  readonly input?: string;
  readonly output?: ItemContent;
  readonly tools?: readonly ResponsesTool[];
};

export type ResponsesTool = {
  readonly type: string;
  readonly name?: string;
  readonly description?: string;
  readonly parameters?: unknown;
  readonly tools?: readonly ResponsesTool[];
};

export type ResponsesRequest = {
  readonly model: string;
  readonly input: string | readonly InputItem[];
  readonly instructions?: string | null;
  readonly tools?: readonly ResponsesTool[] | null;
  readonly tool_choice?: string | { readonly type: string; readonly name?: string } | null;
  readonly parallel_tool_calls?: boolean | null;
  readonly max_output_tokens?: number | null;
  readonly include?: readonly string[] | null;
  readonly stream?: boolean | null;
  readonly metadata?: Record<string, string> | null;
};

/** The vendor's fields of a request; any other field is refused. */
export const RESPONSES_FIELDS = [
  'access_programs',
  'background',
  'context_management',
  'conversation',
  'image',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'metadata',
  'model',
  'moderation',
  'parallel_tool_calls',
  'previous_response_id',
  'prompt',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning',
  'safety_identifier',
  'service_tier',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'text',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'truncation',
  'user',
] as const;

/** Accepted from the vendor's own programs, and in none of its types. */
export const PROGRAM_FIELDS = ['client_metadata'] as const;

type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export type OutputTextPart = { type: 'output_text'; text: string; annotations: []; logprobs: [] };
export type OutputRefusalPart = { type: 'refusal'; refusal: string };
export type OutputSummaryPart = { type: 'summary_text'; text: string };

export type OutputItem =
  | {
      id: string;
      type: 'message';
      status: ItemStatus;
      role: 'assistant';
      content: (OutputTextPart | OutputRefusalPart)[];
    }
  | {
      id: string;
      type: 'reasoning';
      summary: OutputSummaryPart[];
      encrypted_content?: string;
    }
  | {
      id: string;
      type: 'function_call';
      status: ItemStatus;
      call_id: string;
      name: string;
      namespace?: string;
      arguments: string;
    }
  | {
      id: string;
      type: 'custom_tool_call';
      status: ItemStatus;
      call_id: string;
      name: string;
      namespace?: string;
      input: string;
    };

export type ResponsesUsage = {
  input_tokens: number;
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number };
  output_tokens: number;
  output_tokens_details: { reasoning_tokens: number };
  total_tokens: number;
};
