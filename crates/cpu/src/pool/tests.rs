use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

/// Runs `n_pieces` and checks that each ran exactly once.
fn check_once(pool: &Pool, n_pieces: usize) {
    let counts: Vec<AtomicU32> = (0..n_pieces).map(|_| AtomicU32::new(0)).collect();
    pool.run(n_pieces, &|i| {
        counts[i].fetch_add(1, Relaxed);
    });
    assert!(counts.iter().all(|c| c.load(Relaxed) == 1), "{n_pieces} pieces on {} threads", pool.n_threads());
}

#[test]
fn every_piece_runs_once_for_varied_counts() {
    for n_threads in 1..=4 {
        let pool = Pool::new(n_threads).unwrap();
        assert_eq!(pool.n_threads(), n_threads);
        for round in 0..4000 {
            check_once(&pool, [0, 1, 2, 3, 8, 5, 64, 16, 7, 56][round % 10]);
        }
        check_once(&pool, MAX_PIECES);
    }
}

#[test]
fn workers_take_part() {
    let pool = Pool::new(2).unwrap();
    let caller = std::thread::current().id();
    let others = AtomicUsize::new(0);
    // Pieces long enough that a worker must wake and claim some of them before the caller has done all.
    for _ in 0..100 {
        pool.run(8, &|_| {
            if std::thread::current().id() != caller {
                others.fetch_add(1, Relaxed);
            }
            std::thread::sleep(Duration::from_millis(2));
        });
        if others.load(Relaxed) > 0 {
            return;
        }
    }
    panic!("800 pieces, and no worker ran one");
}

/// Runs ops of long pieces until one of `wanted` threads has taken part; returns all that did, by name.
fn who_works(pool: &Pool, wanted: &[&str]) -> BTreeSet<String> {
    let names = Mutex::new(BTreeSet::new());
    for _ in 0..200 {
        pool.run(16, &|_| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            names.lock().unwrap().insert(name);
            std::thread::sleep(Duration::from_millis(1));
        });
        if wanted.iter().all(|name| names.lock().unwrap().contains(*name)) {
            break;
        }
    }
    let mut names = names.into_inner().unwrap();
    names.remove(std::thread::current().name().unwrap_or_default());
    names
}

#[test]
fn each_of_a_pair_works_with_its_own_count() {
    for sizes in [[2, 4], [4, 2]] {
        let pools = Pool::pair(sizes).unwrap();
        assert_eq!(pools.each_ref().map(Pool::n_threads), sizes);
        let [small, large] = if sizes[0] < sizes[1] { [0, 1] } else { [1, 0] };
        for _ in 0..3 {
            let all = ["minfer-cpu-1", "minfer-cpu-2", "minfer-cpu-3"];
            assert!(who_works(&pools[large], &all).into_iter().eq(all));
            assert!(who_works(&pools[small], &all).into_iter().eq(["minfer-cpu-1"]));
        }
        for round in 0..3000 {
            check_once(&pools[round % 2], [0, 1, 2, 3, 8, 5, 64, 16, 7, 56][round % 10]);
        }
    }
}

#[test]
fn ops_of_the_smaller_pool_do_not_call_the_others() {
    let [small, large] = Pool::pair([2, 4]).unwrap();
    let Shared { board, wings, .. } = &*large.crew.shared;
    let calls = || (board.0.calls[1].load(SeqCst), wings[1].wake.current());
    check_once(&large, 8);
    while wings[1].n_sleepers.load(SeqCst) < 2 {
        std::thread::yield_now();
    }
    let before = calls();
    (0..1000).for_each(|_| check_once(&small, 8));
    assert_eq!(calls(), before, "called or woken");
    assert_eq!(wings[1].n_sleepers.load(SeqCst), 2, "awake");
    check_once(&large, 8);
    assert_ne!(calls(), before);
}

#[test]
fn a_pool_of_one_beside_a_larger_one_works_alone() {
    let [one, three] = Pool::pair([1, 3]).unwrap();
    assert!(who_works(&one, &["nobody"]).is_empty());
    check_once(&three, 9);
    drop(three);
    check_once(&one, 9);
}

#[test]
fn results_of_pieces_are_seen_by_the_caller() {
    let pool = Pool::new(3).unwrap();
    for round in 0..3000u64 {
        let mut out = [0u64; 40];
        pool.run_rows(&mut out, 1, Cost { ns: u64::MAX }, |rows, part| {
            part.iter_mut().zip(rows).for_each(|(x, i)| *x = round + i as u64);
        });
        assert!(out.iter().enumerate().all(|(i, &x)| x == round + i as u64));
    }
}

#[test]
fn the_generation_counter_may_wrap() {
    for n_threads in [2, 4] {
        let [pool, _] = Pool::with_generation([n_threads; 2], u32::MAX - 500).unwrap();
        (0..1000).for_each(|_| check_once(&pool, 8));
        assert_eq!(Ticket::unpack(pool.crew.shared.board.0.ticket.load(SeqCst)).generation, 499);
    }
}

#[test]
fn sleeping_workers_are_woken() {
    let pool = Pool::new(4).unwrap();
    for round in 0..60 {
        std::thread::sleep(Duration::from_micros(round * 20));
        check_once(&pool, 9);
    }
}

#[test]
fn a_panic_reaches_the_caller_after_all_pieces_ended() {
    for n_threads in [1, 2, 4] {
        let pool = Pool::new(n_threads).unwrap();
        for bad in 0..9 {
            let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(9, &|i| {
                    started.fetch_add(1, SeqCst);
                    assert!(i != bad, "piece {i} is bad");
                    ended.fetch_add(1, SeqCst);
                })
            }));
            let payload = result.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>(), Some(&format!("piece {bad} is bad")));
            assert_eq!(started.load(SeqCst), ended.load(SeqCst) + 1);
            check_once(&pool, 9);
        }
    }
}

#[test]
fn a_call_from_within_a_piece_runs_inline() {
    let pool = Pool::new(3).unwrap();
    for _ in 0..200 {
        let n = AtomicUsize::new(0);
        pool.run(5, &|_| {
            pool.run(4, &|_| {
                n.fetch_add(1, Relaxed);
            })
        });
        assert_eq!(n.load(Relaxed), 20);
    }
}

#[test]
fn two_threads_may_use_one_pool() {
    let pool = Pool::new(2).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..2000).for_each(|_| check_once(&pool, 6)));
        }
    });
}

#[test]
fn a_pool_may_be_dropped_at_any_time() {
    for round in 0..200 {
        let pool = Pool::new(1 + round % 4).unwrap();
        if round % 3 == 0 {
            check_once(&pool, 8);
        }
        if round % 5 == 0 {
            std::thread::sleep(Duration::from_micros(30));
        }
    }
}

#[test]
fn an_absurd_thread_count_is_refused() {
    for n_threads in [0, MAX_THREADS + 1, usize::MAX] {
        let Err(PoolError::ThreadCount { n_threads: got }) = Pool::new(n_threads) else {
            panic!("{n_threads} threads were accepted");
        };
        assert_eq!(got, n_threads);
        assert!(Pool::pair([2, n_threads]).is_err() && Pool::pair([n_threads, 2]).is_err());
    }
}
