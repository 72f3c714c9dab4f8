// Made by npm run reference from the OpenAPI document.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        "GET /session": {
            name: string;
            may: ("read" | "operate" | "delete" | "query")[];
            service: string;
            version: string;
        };
        "POST /session": components["schemas"]["GET /session"];
        "DELETE /session": { done: true; };
        "GET /overview": {
            attention: {
                kind: "endpointDead" | "endpointRefusing" | "endpointPaused" | "deadLetters" | "queueFull" | "backlogOld" | "sourceDiscards" | "runHeld" | "runFailed" | "runOverdue" | "unusualSize" | "eventLogStuck" | "audienceOrphaned";
                subject: string;
                destination?: string;
                audience?: string;
                source?: string;
                run?: string;
                since: string | null;
                message: string;
            }[];
            pending: number;
            dead: number;
            heldOut: number;
            endpoints: { open: number; dead: number; refusing: number; paused: number; disabled: number; };
            audiences: number;
            destinations: number;
            sources: number;
        };
        "GET /alerts": {
            data: {
                alert: string;
                kind: "endpointDead" | "endpointRefusing" | "endpointPaused" | "deadLetters" | "queueFull" | "backlogOld" | "sourceDiscards" | "runHeld" | "runFailed" | "runOverdue" | "unusualSize" | "eventLogStuck" | "audienceOrphaned";
                subject: string;
                destination: string | null;
                audience: string | null;
                run: string | null;
                message: string;
                openedAt: string;
                closedAt: string | null;
                told: boolean;
            }[];
            next: string | null;
        };
        "GET /audiences data lastRun": {
            run: string;
            state: string;
            action: string;
            startedAt: string;
            ms: number | null;
            code: string | null;
            reason: string | null;
        };
        "GET /audiences data live": { lag: number | null; progress: number | null; ids: number; due: number; hold: string | null; };
        "GET /audiences data todo": { do: "repair"; run: string; code: string; reason: string; since: string; };
        "GET /audiences": {
            data: {
                key: string;
                kind: "audience" | "trait";
                engine: string;
                source: string;
                state: "ok" | "new" | "held" | "failed" | "unfinished" | "paused" | "orphaned";
                members: number | null;
                trend: number[];
                lastRun: components["schemas"]["GET /audiences data lastRun"] | null;
                ordered: { action: string; at: string; } | null;
                schedule: string | null;
                nextRunAt: string | null;
                paused: { since: string; by: string; } | null;
                overdueSince: string | null;
                live: components["schemas"]["GET /audiences data live"] | null;
                todo: ({ do: "decide"; run: string; reason: string; } | components["schemas"]["GET /audiences data todo"] | { do: "retire"; }) | null;
                description?: string;
                owner?: string;
                labels?: { [key: string]: string; };
            }[];
            next: string | null;
        };
        "GET /audiences/{key} definition guard": {
            maxExits: ({ count: number; } | { percent: number; }) | null;
            maxEntries: ({ count: number; } | { percent: number; }) | null;
            minMembers: number;
            allowEmpty: boolean;
        };
        "GET /audiences/{key} definition": {
            name: string;
            timezone: string | null;
            timeout: number;
            guard: components["schemas"]["GET /audiences/{key} definition guard"];
            destinations: string[];
            language: "sql" | "yaml";
            text: string;
            yaml: string;
            version: string;
            sentence: string | null;
        };
        "GET /audiences/{key} destinations run": { id: string; action: string; sent: number; members: number; };
        "GET /audiences/{key} destinations": {
            key: string;
            kind: "audience" | "trait";
            destination: string;
            state: "new" | "current" | "later" | "to_come" | "lapsed" | "to_end";
            since: string | null;
            run: components["schemas"]["GET /audiences/{key} destinations run"] | null;
            pending: number;
            dead: number;
        };
        "GET /audiences/{key}": {
            key: string;
            kind: "audience" | "trait";
            engine: string;
            source: string;
            state: "ok" | "new" | "held" | "failed" | "unfinished" | "paused" | "orphaned";
            members: number | null;
            trend: number[];
            lastRun: components["schemas"]["GET /audiences data lastRun"] | null;
            ordered: { action: string; at: string; } | null;
            schedule: string | null;
            nextRunAt: string | null;
            paused: { since: string; by: string; } | null;
            overdueSince: string | null;
            live: components["schemas"]["GET /audiences data live"] | null;
            todo: ({ do: "decide"; run: string; reason: string; } | components["schemas"]["GET /audiences data todo"] | { do: "retire"; }) | null;
            description?: string;
            owner?: string;
            labels?: { [key: string]: string; };
            definition: components["schemas"]["GET /audiences/{key} definition"] | null;
            destinations: components["schemas"]["GET /audiences/{key} destinations"][];
        };
        "GET /audiences/{key}/members": {
            data: { userId: string; traits?: unknown; }[];
            next: string | null;
        };
        "GET /audiences/{key}/why since": {
            run: string;
            key: string;
            kind: "audience" | "trait";
            first: boolean;
            members: number;
            entered: number;
            exited: number;
            invalid: number;
            duplicates: number;
            held: boolean;
            sent: number;
            startedAt: string;
            ms: number | null;
            action: "sync" | "resync" | "retire" | "backfill" | "withdraw";
            state: "staged" | "held" | "sending" | "committed" | "done" | "failed" | "rejected";
            phase: string;
            code: string | null;
            reason: string | null;
            changed: number;
            reasons: { [key: string]: number; };
            skipped: string[];
            before: number | null;
            definitionHash: string;
            asOf: string;
        };
        "GET /audiences/{key}/why changes event": { messageId: string; type: string; event: string | null; timestamp: string; };
        "GET /audiences/{key}/why changes told attempt": {
            delivery: string;
            destination: string;
            endpoint: string;
            source: string;
            type: "identify" | "track" | "page" | "screen" | "group" | "alias" | "delete";
            userId: string | null;
            messageId: string;
            at: string;
            ms: number;
            outcome: "success" | "retry" | "refused" | "tls_untrusted" | "address_refused" | "skipped";
            status: number | null;
            error: string | null;
            response: string | null;
        };
        "GET /audiences/{key}/why changes told deadLetter": {
            id: string;
            destination: string;
            reason: "refused" | "expired" | "destination_removed" | "undeliverable" | "queue_full";
            status: number | null;
        };
        "GET /audiences/{key}/why changes told": {
            destination: string;
            reached: boolean;
            attempt: components["schemas"]["GET /audiences/{key}/why changes told attempt"] | null;
            deadLetter: components["schemas"]["GET /audiences/{key}/why changes told deadLetter"] | null;
        };
        "GET /audiences/{key}/why changes": {
            change: "entered" | "left" | "changed" | "sent again";
            reason: ("first_sync" | "entered" | "exited" | "changed" | "definition" | "resync" | "backfill" | "returning" | "withdrawn" | "retired" | "renamed") | null;
            changedAt: string | null;
            at: string | null;
            run: string | null;
            action: ("sync" | "resync" | "retire" | "backfill" | "withdraw") | null;
            definitionHash: string | null;
            cause: ({ messageId: string; } | { audience: string; } | { computed: string; } | { deletion: true; } | { time: string; }) | null;
            event: components["schemas"]["GET /audiences/{key}/why changes event"] | null;
            audience: string | null;
            value: unknown;
            told: components["schemas"]["GET /audiences/{key}/why changes told"][];
        };
        "GET /audiences/{key}/why": {
            key: string;
            user: string;
            asOf: string | null;
            member: boolean | null;
            value: unknown;
            since: components["schemas"]["GET /audiences/{key}/why since"] | null;
            absence: { reason: "former" | "unknown" | "condition"; user: string | null; failing: string[]; } | null;
            conditions: {
                path: string;
                condition: string;
                says: string | null;
                passes: boolean;
                times: number | null;
                last: string | null;
                value: unknown;
            }[];
            steps: {
                path: string;
                condition: string;
                event: { messageId: string; event: string; timestamp: string; } | null;
                until: string | null;
                isOver: boolean;
            }[];
            changes: components["schemas"]["GET /audiences/{key}/why changes"][];
            unfinished: components["schemas"]["GET /audiences/{key}/why since"][];
            attempts: components["schemas"]["GET /audiences/{key}/why changes told attempt"][];
            deadLetters: components["schemas"]["GET /audiences/{key}/why changes told deadLetter"][];
        };
        "GET /audiences/{key}/plan": {
            key: string;
            kind: "audience" | "trait";
            first: boolean;
            before: number;
            members: number;
            entered: number;
            exited: number;
            changed: number;
            invalid: number;
            duplicates: number;
            messages: number;
            destinations: string[];
            newcomers: string[];
            skipped: string[];
            owed: {
                destination: string;
                reason: "first_sync" | "entered" | "exited" | "changed" | "definition" | "resync" | "backfill" | "returning" | "withdrawn" | "retired" | "renamed";
                messages: number;
                isDifference: boolean;
            }[];
            returning: string[];
            withdrawn: string[];
            filtered: string[];
            away: string[];
            calls: number;
            estimatedMs: number | null;
            held: string | null;
            renamedFrom: string | null;
            retired: number;
            paused: { since: string; by: string; } | null;
            unfinished: { run: string; state: string; reason: string | null; }[];
            reasons: { [key: string]: number; };
            unnamed: string[];
            sample: unknown[];
        };
        "POST /audiences/{key}/sync deliveries": { total: number; delivered: number; superseded: number; dead: number; waiting: number; };
        "POST /audiences/{key}/sync": {
            status: "ordered" | "done" | "undelivered";
            runs: components["schemas"]["GET /audiences/{key}/why since"][];
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"] | null;
        };
        "POST /audiences/{key}/pause": components["schemas"]["GET /audiences/{key}"];
        "POST /audiences/{key}/resume": components["schemas"]["GET /audiences/{key}"];
        "POST /audiences/{key}/resync": {
            status: "ordered" | "done" | "undelivered";
            runs: components["schemas"]["GET /audiences/{key}/why since"][];
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"] | null;
        };
        "POST /audiences/{key}/retire": {
            status: "ordered" | "done" | "undelivered";
            runs: components["schemas"]["GET /audiences/{key}/why since"][];
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"] | null;
        };
        "GET /runs": {
            data: components["schemas"]["GET /audiences/{key}/why since"][];
            next: string | null;
        };
        "GET /runs/{run}": {
            run: string;
            key: string;
            kind: "audience" | "trait";
            first: boolean;
            members: number;
            entered: number;
            exited: number;
            invalid: number;
            duplicates: number;
            held: boolean;
            sent: number;
            startedAt: string;
            ms: number | null;
            action: "sync" | "resync" | "retire" | "backfill" | "withdraw";
            state: "staged" | "held" | "sending" | "committed" | "done" | "failed" | "rejected";
            phase: string;
            code: string | null;
            reason: string | null;
            changed: number;
            reasons: { [key: string]: number; };
            skipped: string[];
            before: number | null;
            definitionHash: string;
            asOf: string;
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"];
        };
        "GET /runs/{run}/changes": {
            data: { userId: string; change: "entered" | "exited" | "changed"; traits?: unknown; }[];
            next: string | null;
        };
        "POST /runs/{run}/approve": {
            status: "ordered" | "done" | "undelivered";
            runs: components["schemas"]["GET /audiences/{key}/why since"][];
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"] | null;
        };
        "POST /runs/{run}/reject": {
            status: "ordered" | "done" | "undelivered";
            runs: components["schemas"]["GET /audiences/{key}/why since"][];
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"] | null;
        };
        "GET /endpoints": {
            data: {
                destination: string;
                endpoint: string;
                url: string;
                state: "open" | "dead" | "refusing" | "paused" | "disabled";
                since: string | null;
                cause: string | null;
                answer: string | null;
                pending: number;
                dead: number;
                heldOut: number;
            }[];
            next: string | null;
        };
        "GET /endpoints/{endpoint}": {
            destination: string;
            endpoint: string;
            url: string;
            state: "open" | "dead" | "refusing" | "paused" | "disabled";
            since: string | null;
            cause: string | null;
            answer: string | null;
            pending: number;
            dead: number;
            heldOut: number;
            window: { size: number; inFlight: number; } | null;
        };
        "POST /endpoints/{endpoint}/resume": {
            destination: string;
            endpoint: string;
            url: string;
            state: "open" | "dead" | "refusing" | "paused" | "disabled";
            since: string | null;
            cause: string | null;
            answer: string | null;
            pending: number;
            dead: number;
            heldOut: number;
        };
        "POST /endpoints/{endpoint}/pause": components["schemas"]["POST /endpoints/{endpoint}/resume"];
        "GET /destinations": {
            data: {
                destination: string;
                state: "enabled" | "disabled" | "not configured";
                processes: number;
                pending: number;
                dead: number;
                heldOut: number;
                unknownSince: string | null;
                unknownFor: number;
                removedAfter: number;
                description?: string;
                owner?: string;
                labels?: { [key: string]: string; };
            }[];
            next: string | null;
        };
        "GET /destinations/{destination}": {
            destination: string;
            state: "enabled" | "disabled" | "not configured";
            processes: number;
            pending: number;
            dead: number;
            heldOut: number;
            unknownSince: string | null;
            unknownFor: number;
            removedAfter: number;
            description?: string;
            owner?: string;
            labels?: { [key: string]: string; };
            definition: {
                sources: string[];
                types: string[] | null;
                events: string[] | null;
                audiences: string[] | null;
                require: "any" | "all";
                signing: string;
                signed: boolean;
                ratePerSecond: number | null;
            } | null;
            audiences: components["schemas"]["GET /audiences/{key} destinations"][];
        };
        "POST /destinations/{destination}/drop": { dropped: number; more: boolean; };
        "POST /destinations/{destination}/test": {
            data: {
                destination: string;
                endpoint: string;
                url: string;
                outcome: string;
                status: number | null;
                error: string | null;
                ms: number;
                signatures: string[];
                response: string | null;
                advice: string | null;
            }[];
        };
        "GET /attempts": {
            data: components["schemas"]["GET /audiences/{key}/why changes told attempt"][];
            next: string | null;
        };
        "GET /dead-letters": {
            data: {
                id: string;
                destination: string;
                source: string;
                type: "identify" | "track" | "page" | "screen" | "group" | "alias" | "delete";
                userId: string | null;
                messageId: string;
                reason: "refused" | "expired" | "destination_removed" | "undeliverable" | "queue_full";
                status: number | null;
                attempts: number;
                firstAt: string | null;
                lastAt: string;
            }[];
            next: string | null;
        };
        "GET /dead-letters/{id}": {
            id: string;
            destination: string;
            source: string;
            type: "identify" | "track" | "page" | "screen" | "group" | "alias" | "delete";
            userId: string | null;
            messageId: string;
            reason: "refused" | "expired" | "destination_removed" | "undeliverable" | "queue_full";
            status: number | null;
            attempts: number;
            firstAt: string | null;
            lastAt: string;
            body: unknown;
        };
        "POST /dead-letters/replay": {
            replayed: number;
            superseded: number;
            left: { reason: string; letters: number; }[];
            next: string | null;
        };
        "POST /dead-letters/drop": { dropped: number; next: string | null; };
        "GET /messages": {
            data: {
                id: string;
                messageId: string;
                source: string;
                type: "identify" | "track" | "page" | "screen" | "group" | "alias" | "delete";
                event: string | null;
                traits: unknown;
                userId: string | null;
                destination: string;
                state: "waiting" | "dead" | "delivered";
                at: string;
                kept: boolean;
            }[];
            next: string | null;
        };
        "GET /messages/{id}": {
            id: string;
            messageId: string;
            source: string;
            type: "identify" | "track" | "page" | "screen" | "group" | "alias" | "delete";
            event: string | null;
            traits: unknown;
            userId: string | null;
            destination: string;
            state: "waiting" | "dead" | "delivered";
            at: string;
            kept: boolean;
            acceptedAt: string;
            body: unknown;
            attempts: components["schemas"]["GET /audiences/{key}/why changes told attempt"][];
        };
        "POST /messages/resend": { resent: number; superseded: number; };
        "GET /people/{user}": {
            user: string;
            asOf: string | null;
            memberships: {
                key: string;
                kind: "audience" | "trait";
                name: string | null;
                member: boolean | null;
                value: unknown;
                change: components["schemas"]["GET /audiences/{key}/why changes"] | null;
            }[];
            failures: { engine: string; code: string; message: string; }[];
            deletion: {
                suppressed: string[];
                requests: {
                    id: string;
                    type: "DELETE_ONLY" | "SUPPRESS_WITH_DELETE" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                    status: string;
                    createdAt: string;
                }[];
            };
        };
        "GET /sources": {
            data: { id: string; enabled: boolean; ratePerSecond: number | null; destinations: string[]; }[];
            next: string | null;
        };
        "GET /discards": {
            data: { source: string; code: string; at: string; message: string; }[];
            next: string | null;
        };
        "GET /audit": {
            data: { at: string; who: string; action: string; target: string | null; outcome: string | null; }[];
            next: string | null;
        };
        "GET /deletions data notices": { destination: string; notices: number; confirmed: number; confirmedAt: string | null; };
        "GET /deletions": {
            data: {
                id: string;
                type: "DELETE_ONLY" | "SUPPRESS_WITH_DELETE" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                status: "INITIALIZED" | "RUNNING" | "FINISHED" | "FAILED" | "PARTIAL_SUCCESS";
                sources: string[] | null;
                users: number;
                by: string | null;
                createdAt: string;
                finishedAt: string | null;
                notices: components["schemas"]["GET /deletions data notices"][];
            }[];
            next: string | null;
        };
        "GET /deletions/{deletion}": {
            id: string;
            type: "DELETE_ONLY" | "SUPPRESS_WITH_DELETE" | "SUPPRESS_ONLY" | "UNSUPPRESS";
            status: "INITIALIZED" | "RUNNING" | "FINISHED" | "FAILED" | "PARTIAL_SUCCESS";
            sources: string[] | null;
            users: number;
            by: string | null;
            createdAt: string;
            finishedAt: string | null;
            notices: components["schemas"]["GET /deletions data notices"][];
        };
        "GET /event-log": {
            kept: boolean;
            events: number | null;
            bytes: number | null;
            from: string | null;
            to: string | null;
            files: number | null;
            unsealed: number | null;
        };
        "POST /event-log/verify": {
            files: number;
            faults: { file: string; fault: string; }[];
        };
        "GET /event-log/count": { events: number; };
        "GET /event-log/sends": {
            data: {
                id: string;
                destination: string;
                since: string;
                until: string;
                type: ("identify" | "track" | "page" | "screen" | "group" | "alias") | null;
                event: string | null;
                source: string | null;
                state: "sending" | "done" | "cancelled";
                total: number;
                sent: number;
                deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"];
                waitsFor: string | null;
                startedAt: string;
                finishedAt: string | null;
            }[];
            next: string | null;
        };
        "POST /event-log/sends": {
            id: string;
            destination: string;
            since: string;
            until: string;
            type: ("identify" | "track" | "page" | "screen" | "group" | "alias") | null;
            event: string | null;
            source: string | null;
            state: "sending" | "done" | "cancelled";
            total: number;
            sent: number;
            deliveries: components["schemas"]["POST /audiences/{key}/sync deliveries"];
            waitsFor: string | null;
            startedAt: string;
            finishedAt: string | null;
        };
        "GET /event-log/sends/{send}": components["schemas"]["POST /event-log/sends"];
        "POST /event-log/sends/{send}/cancel": components["schemas"]["POST /event-log/sends"];
        "GET /history": {
            step: "minute" | "hour" | "day";
            data: {
                at: string;
                accepted?: number | null;
                duplicates?: number | null;
                suppressed?: number | null;
                discarded?: number | null;
                delivered?: number | null;
                retried?: number | null;
                dead?: number | null;
                succeeded?: number | null;
                refused?: number | null;
                entered?: number | null;
                exited?: number | null;
                runs?: number | null;
                failed?: number | null;
                p50Ms?: number | null;
                p95Ms?: number | null;
                p99Ms?: number | null;
                pending?: number | null;
                oldestMs?: number | null;
                members?: number | null;
            }[];
        };
        "GET /history/sums": {
            data: {
                name: string;
                accepted?: number | null;
                duplicates?: number | null;
                suppressed?: number | null;
                discarded?: number | null;
                delivered?: number | null;
                retried?: number | null;
                dead?: number | null;
                succeeded?: number | null;
                refused?: number | null;
                entered?: number | null;
                exited?: number | null;
                runs?: number | null;
                failed?: number | null;
                p50Ms?: number | null;
                p95Ms?: number | null;
                p99Ms?: number | null;
            }[];
            next: string | null;
        };
        "POST /try mistakes": { path: string; line: number | null; column: number | null; message: string; };
        "POST /try": {
            mistakes: components["schemas"]["POST /try mistakes"][];
            warnings: components["schemas"]["POST /try mistakes"][];
            key: string | null;
            kind: ("audience" | "trait") | null;
            engine: string | null;
            draft: unknown;
            yaml: string | null;
            sql: string | null;
            sentences: { [key: string]: string; };
            failure: { code: string; message: string; } | null;
            people: {
                members: number;
                invalid: number;
                duplicates: number;
                columns: string[];
                unnamed: string[];
                funnel: { path: string; condition: string; people: number | null; left: number | null; }[] | null;
                sample: {
                    userId: string;
                    value: unknown;
                    why: { path: string; times: number | null; last: string | null; value: unknown; }[];
                }[];
            } | null;
            difference: {
                key: string;
                before: number;
                entered: number;
                exited: number;
                changed: number;
                held: string | null;
                sample: { userId: string; change: "entered" | "exited" | "changed"; }[];
            } | null;
            overlap: { key: string; name: string; members: number | null; both: number | null; because: string | null; }[] | null;
            past: { at: string; members: number; }[] | null;
            pastless: string | null;
        };
        "GET /try/names": {
            sources: string[];
            engines: string[];
            computed: { key: string; kind: "audience" | "trait"; }[];
            events: { kind: "track" | "page" | "screen"; name: string; properties: string[]; }[];
            traits: string[];
        };
        "POST /config/reload": { done: true; };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
