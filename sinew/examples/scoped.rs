//! Scopes of fibres. Fibres borrow the halves of a slice and sort them at the same time. A group of
//! fibres looks for a fault in the result, and stops at the first one.

fn sort(numbers: &mut [u32]) {
    if numbers.len() <= 64 {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (left, right) = numbers.split_at_mut(middle);
    sinew::scope(|scope| {
        scope.spawn(|| sort(left));
        sort(right);
    });
    merge(numbers, middle);
}

fn merge(numbers: &mut [u32], middle: usize) {
    let left = numbers[..middle].to_vec();
    let (mut from_left, mut from_right) = (0, middle);
    for place in 0..numbers.len() {
        let take_right =
            from_left == left.len() || (from_right < numbers.len() && numbers[from_right] < left[from_left]);
        if take_right {
            numbers[place] = numbers[from_right];
            from_right += 1;
        } else {
            numbers[place] = left[from_left];
            from_left += 1;
        }
    }
}

/// Looks at the parts of a slice, four at a time.
fn check(numbers: &[u32]) -> Result<(), String> {
    sinew::try_scope(|group| {
        group.set_limit(4);
        for (number, part) in numbers.chunks(50_000).enumerate() {
            group.spawn(move || {
                for pair in part.windows(2) {
                    // Notices that another part has a fault.
                    sinew::cancel::check().map_err(|cancelled| cancelled.to_string())?;
                    if pair[0] > pair[1] {
                        return Err(format!("part {number} is not sorted: {} before {}", pair[0], pair[1]));
                    }
                }
                Ok(())
            });
        }
        Ok(())
    })
}

fn main() {
    let mut numbers: Vec<u32> = (0..1_000_000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    sinew::run(|| {
        println!("{}", check(&numbers).unwrap_err());
        sort(&mut numbers);
        check(&numbers).unwrap();
    });
    println!("{} numbers sorted", numbers.len());
}
