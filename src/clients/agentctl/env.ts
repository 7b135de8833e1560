// The environment variables that commands read; main.ts passes them in.
export type Env = Readonly<Record<string, string | undefined>>;
